// The table of collectives, and what each rank's data is in them.
#include "tools/bench/cases.hpp"

#include <algorithm>
#include <array>

#include "tools/bench/data.hpp"

namespace hymn {

namespace {

double unity(int) { return 1.0; }
double all_but_own(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double twice_all_but_own(int ranks) { return 2.0 * (ranks - 1) / ranks; }

int next(const BenchShape& shape) { return (shape.rank + 1) % shape.ranks; }
int previous(const BenchShape& shape) { return (shape.rank + shape.ranks - 1) % shape.ranks; }

using Shape = const BenchShape&;
using In = ConstBufferView;
using Out = BufferView;

constexpr Extent extent_of(SideForm form) {
  switch (form) {
    case SideForm::none:
      return Extent::nothing;
    case SideForm::whole:
      return Extent::one;
    case SideForm::blocks:
      return Extent::each;
  }
  return Extent::nothing;
}

/// The forms that it has.
struct Forms {
  bool out_of_place;
  bool in_place;
};

constexpr Forms any_form{true, true};

constexpr BenchCase collective(OpType type, Forms forms, double (*bus_factor)(int ranks),
                               Request (*request)(Shape, In, Out, ReduceOp)) {
  const OpTraits& traits = traits_of(type);
  return {.name = traits.name,
          .type = type,
          .input = extent_of(traits.input),
          .input_on_root_only = traits.root == RootRole::gives,
          .output = extent_of(traits.output),
          .output_on_root_only = traits.root == RootRole::takes,
          .reduces = traits.reduces,
          .out_of_place = forms.out_of_place,
          .in_place = forms.in_place,
          .bus_factor = bus_factor,
          .request = request};
}

constexpr std::array<BenchCase, 12> cases{{
    collective(OpType::all_reduce, any_form, twice_all_but_own,
               [](Shape, In in, Out out, ReduceOp op) { return Request::all_reduce(in, out, op); }),
    collective(
        OpType::broadcast, {.out_of_place = false, .in_place = true}, unity,
        [](Shape shape, In, Out out, ReduceOp) { return Request::broadcast(out, shape.root); }),
    collective(OpType::reduce, any_form, unity,
               [](Shape shape, In in, Out out, ReduceOp op) {
                 return Request::reduce(in, out, shape.root, op);
               }),
    collective(OpType::gather, any_form, all_but_own,
               [](Shape shape, In in, Out out, ReduceOp) {
                 return Request::gather(in, OutputBlocks::equal(out), shape.root);
               }),
    collective(OpType::scatter, any_form, all_but_own,
               [](Shape shape, In in, Out out, ReduceOp) {
                 return Request::scatter(InputBlocks::equal(in), out, shape.root);
               }),
    collective(OpType::all_gather, any_form, all_but_own,
               [](Shape, In in, Out out, ReduceOp) {
                 return Request::all_gather(in, OutputBlocks::equal(out));
               }),
    collective(OpType::reduce_scatter, any_form, all_but_own,
               [](Shape, In in, Out out, ReduceOp op) {
                 return Request::reduce_scatter(InputBlocks::equal(in), out, op);
               }),
    collective(OpType::scan, any_form, unity,
               [](Shape, In in, Out out, ReduceOp op) { return Request::scan(in, out, op); }),
    collective(OpType::exscan, any_form, unity,
               [](Shape, In in, Out out, ReduceOp op) { return Request::exscan(in, out, op); }),
    collective(OpType::all_to_all, any_form, all_but_own,
               [](Shape, In in, Out out, ReduceOp) {
                 return Request::all_to_all(InputBlocks::equal(in), OutputBlocks::equal(out));
               }),
    collective(OpType::barrier, {.out_of_place = true, .in_place = false}, unity,
               [](Shape, In, Out, ReduceOp) { return Request::barrier(); }),
    {.name = "send_recv",  // round a ring
     .type = OpType::batch,
     .input = Extent::one,
     .input_on_root_only = false,
     .output = Extent::one,
     .output_on_root_only = false,
     .reduces = false,
     .out_of_place = true,
     .in_place = false,
     .bus_factor = unity,
     .request = [](Shape shape, In in, Out, ReduceOp) { return Request::send(in, next(shape)); }},
}};
static_assert(std::ranges::all_of(all_op_types, [](OpType type) {
  return !is_collective(type) || std::ranges::any_of(cases, [type](const BenchCase& bench_case) {
    return bench_case.type == type;
  });
}));

std::size_t elements(Extent extent, bool root_only, const BenchShape& shape) {
  if (extent == Extent::nothing || (root_only && shape.rank != shape.root)) return 0;
  return extent == Extent::one ? shape.count : shape.count * static_cast<std::size_t>(shape.ranks);
}

}  // namespace

std::size_t BenchCase::input_count(const BenchShape& shape) const {
  return elements(input, input_on_root_only, shape);
}

std::size_t BenchCase::output_count(const BenchShape& shape) const {
  return elements(output, output_on_root_only, shape);
}

int BenchCase::reduced_ranks(int rank, int ranks) const {
  if (!is_prefix(type)) return ranks;
  return type == OpType::scan ? rank + 1 : rank;
}

std::span<const BenchCase> bench_cases() { return cases; }

const BenchCase* find_bench_case(std::string_view name) {
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const BenchCase& c) { return c.name == name; });
  return found == cases.end() ? nullptr : &*found;
}

BenchCall::BenchCall(const BenchCase& bench_case, const BenchShape& shape, DataType dtype,
                     ReduceOp op, void* first, void* second, MemoryKind memory) {
  const std::size_t own_block = static_cast<std::size_t>(shape.rank) * shape.count;
  const std::size_t input_count = bench_case.input_count(shape);
  const std::size_t output_count = bench_case.output_count(shape);
  // In place, where one side has blocks, the other side is this rank's own block of it.
  const bool own_in = shape.in_place && bench_case.output > bench_case.input;
  const bool own_out = shape.in_place && bench_case.input > bench_case.output;
  const BufferView whole(first, shape.count * static_cast<std::size_t>(shape.ranks), dtype, memory);
  input_ = whole.slice(own_in ? own_block : 0, input_count);
  output_ = shape.in_place ? whole.slice(own_out ? own_block : 0, output_count)
                           : BufferView(second, output_count, dtype, memory);
  request_ = bench_case.request(shape, input_, output_, op);
  if (bench_case.type == OpType::batch)
    ring_ = {P2POp::send(input_, next(shape)), P2POp::recv(output_, previous(shape))};
  expect(bench_case, shape);
}

void BenchCall::expect(const BenchCase& bench_case, const BenchShape& shape) {
  if (output_.count == 0) return;
  // Where the sender's input has a block for each rank, this rank's is that of its own number.
  const std::size_t first =
      bench_case.input == Extent::each ? static_cast<std::size_t>(shape.rank) * shape.count : 0;
  if (bench_case.reduces) {
    if (bench_case.reduced_ranks(shape.rank, shape.ranks) > 0)
      expected_.push_back({output_, first});
  } else if (bench_case.output == Extent::each) {
    for (int source = 0; source < shape.ranks; ++source) {
      const std::size_t offset = static_cast<std::size_t>(source) * shape.count;
      expected_.push_back({output_.slice(offset, shape.count), first + phase_of_rank(source)});
    }
  } else {
    const int source = bench_case.type == OpType::batch ? previous(shape) : shape.root;
    expected_.push_back({output_, first + phase_of_rank(source)});
  }
}

}  // namespace hymn
