#include "runtime/join/shadow_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "collectives/reduce/identity.hpp"
#include "recorder/call_facts.hpp"

namespace hymn {
namespace {

[[noreturn]] void refuse(const CallRecord& record, std::string_view why, const char* remedy) {
  throw UnsupportedError(fmt::format("{} #{} cannot be shadowed: {}", describe(facts_of(record)),
                                     record.sequence, why),
                         {.remedy = remedy});
}

/// The side that is cut into blocks; null: there is none.
const CallSide* blocks_of(const CallRecord& record) {
  if (has_input_blocks(record.type)) return &record.input;
  return has_output_blocks(record.type) ? &record.output : nullptr;
}

DataType dtype_of(const CallRecord& record) {
  return all_have_outputs(record.type) ? record.output.dtype : record.input.dtype;
}

ReduceOp op_of(const CallRecord& record) {
  constexpr double factor = 1.0;
  return record.kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(factor)
                                               : ReduceOp::of(record.kind);
}

std::size_t sum_of(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

/// Blocks of these sizes in `all`, or none where that is elsewhere; `list` keeps the views.
template <class View>
Blocks<View> cut(Layout layout, View all, std::span<const std::size_t> sizes, bool are_here,
                 std::vector<View>& list) {
  const auto counted = Blocks<View>::counted(all, sizes);
  if (layout == Layout::equal) return Blocks<View>::equal(all);
  if (layout == Layout::counted) return counted;
  if (!are_here) return {};
  counted.for_each(static_cast<int>(sizes.size()),
                   [&list](int, View block) { list.push_back(block); });
  return Blocks<View>::list(list);
}

std::span<std::byte> as_much_of(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return std::span(memory).first(bytes);
}

}  // namespace

bool depends_on_all(const CallRecord& record) {
  // Where all blocks of one side are equal, those of the other are.
  if (record.type == OpType::all_to_all)
    return record.input.layout != Layout::equal && record.output.layout != Layout::equal;
  // Equal blocks, and given counts, are the same on all ranks.
  return has_root(record.type) && has_blocks(record.type) &&
         blocks_of(record)->layout != Layout::equal && blocks_of(record)->layout != Layout::counted;
}

bool tells_blocks(const CallRecord& record) {
  const CallSide* const blocks = blocks_of(record);
  return blocks != nullptr && blocks->layout != Layout::none;
}

namespace {

void make_single(CallSide& side, SideForm form, std::uint64_t count) {
  side.layout = form == SideForm::blocks ? Layout::equal : Layout::whole;
  side.count = count;
  side.buffers = 1;
  side.even = true;
}

}  // namespace

std::vector<SeenCall> single_calls_of(const SeenCall& coalesced) {
  const OpTraits& traits = traits_of(coalesced.type);
  if (coalesced.given_blocks || coalesced.type == OpType::barrier ||
      (has_root(coalesced.type) && has_blocks(coalesced.type)))
    refuse(
        coalesced, "it is not recorded how its blocks lie",
        "coalesce calls over equal blocks without a root, make them one by one, or use joinables");
  if (coalesced.own_bundles)
    refuse(
        coalesced, "it is not recorded how much of it travels together",
        "make broadcasts in a coalescing scope in place of broadcast_coalesced, or use joinables");
  const auto inputs = counts_of_buffers(coalesced.input, coalesced.counts.input);
  const auto outputs = counts_of_buffers(coalesced.output, coalesced.counts.output);
  if (inputs.size() != coalesced.input.buffers || outputs.size() != inputs.size())
    refuse(coalesced, "it has more buffers than the flight recorder keeps sizes of",
           "raise HYMN_RECORDER_COUNTS on all ranks, coalesce fewer calls, or use joinables");
  std::vector<SeenCall> singles(inputs.size(), coalesced);
  for (std::size_t i = 0; i < singles.size(); ++i) {
    SeenCall& single = singles[i];
    single.coalesced = single.own_shapes = false;
    single.counts = {};
    make_single(single.input, traits.input, inputs[i]);
    make_single(single.output, traits.output, outputs[i]);
  }
  return singles;
}

ShadowCall::ShadowCall(const MadeCall& made, int rank, GroupShape shape,
                       const ShadowOptions& options, ShadowMemory memory)
    : shape_(shape), options_(options), dtype_(dtype_of(*made.one)), memory_(std::move(memory)) {
  const CallRecord& record = *made.one;
  if (dtype_ == DataType::value)
    refuse(record, "only the program knows what its values are",
           "use joinables, whose hooks can make the call");
  if (dtype_ == DataType::opaque)
    refuse(record, "only another library knows the type of its elements",
           "use joinables, whose hooks can make the call");
  const bool is_root = record.peer == rank;
  const bool gives_as_root = is_root && traits_of(record.type).root == RootRole::gives;
  request_ = request_for(made, is_root);
  if (const std::uint64_t order = facts_of(record).order; order != 0) lay_out(order);
  if (reduces(record.type))
    fill_given(record, {.dtype = dtype_, .identity_of = record.kind});
  else if (gives_as_root && traits_of(record.type).one_buffer)
    fill_number(record, taken_, root_fill(record));
  else if (gives_as_root)
    fill_given(record, {.dtype = dtype_, .number = root_fill(record)});
  else
    fill_given(record, {.dtype = dtype_, .number = options_.fill});
}

double ShadowCall::root_fill(const CallRecord& record) const {
  if (!options_.root_fill)
    refuse(
        record, "its root has run out of input, and has nothing to give",
        "let Join::acting_root choose the root, give ShadowOptions::root_fill, or use joinables");
  return *options_.root_fill;
}

void ShadowCall::fill_given(const CallRecord& record, const ShadowMemory::Content& content) {
  if (memory_.content == content && memory_.filled >= given_.size()) return;
  memory_.filled = 0;
  if (!content.identity_of)
    fill_number(record, given_, content.number);
  else if (!fill_identity(given_, dtype_, *content.identity_of))
    refuse(record, "no value is known that would leave its result unchanged", "use joinables");
  memory_.content = content;
  memory_.filled = given_.size();
}

void ShadowCall::fill_number(const CallRecord& record, std::span<std::byte> memory,
                             double number) const {
  if (memory.empty()) return;
  if (!hymn::fill_number(memory, dtype_, number))
    refuse(record, fmt::format("its elements cannot be {}, which ShadowOptions asks for", number),
           "give a number that the type can hold");
}

// --- Requests

Request ShadowCall::request_for(const MadeCall& made, bool is_root) {
  const SeenCall& call = *made.one;
  switch (call.type) {
    case OpType::all_reduce:
      return Request::all_reduce(input(call.input.count), output(call.input.count), op_of(call));
    case OpType::broadcast:
      return Request::broadcast(output(call.output.count), call.peer);
    case OpType::reduce:
      return Request::reduce(input(call.input.count), output(is_root ? call.input.count : 0),
                             call.peer, op_of(call));
    case OpType::gather:
      return gather(made, is_root);
    case OpType::scatter:
      return scatter(made, is_root);
    case OpType::all_gather:
      return all_gather(call);
    case OpType::reduce_scatter:
      return reduce_scatter(call);
    case OpType::all_to_all:
      return all_to_all(made);
    case OpType::barrier:
      return Request::barrier();
    case OpType::scan:
    case OpType::exscan:
      refuse(call, "joins have no shadow of prefix reductions",
             "use joinables, whose hooks can make the call");
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      break;
  }
  refuse(call, "it is no collective", "use joinables, whose hooks can make the call");
}

namespace {

/// The one buffer, of that layout.
template <class View>
Blocks<View> laid_out(const Blocks<View>& blocks, const SomeLayout& layout) {
  View flat = blocks.flat();
  flat.shape = layout.shape;
  flat.strides = layout.strides;
  return blocks.layout() == Layout::equal ? Blocks<View>::equal(flat) : Blocks<View>::whole(flat);
}

}  // namespace

void ShadowCall::lay_out(std::uint64_t order) {
  const bool by_output = is_shaped_by_output(request_.type);
  layout_ =
      layout_with(order, by_output ? request_.outputs.flat().count : request_.inputs.flat().count);
  if (by_output)
    request_.outputs = laid_out(request_.outputs, layout_);
  else
    request_.inputs = laid_out(request_.inputs, layout_);
}

Request ShadowCall::all_gather(const SeenCall& call) {
  const Sizes sizes = sizes_of(call, &CallRecord::output);
  const ConstBufferView in = input(mine(sizes));
  return Request::all_gather(in, output_blocks(call.output.layout, sizes));
}

Request ShadowCall::reduce_scatter(const SeenCall& call) {
  const Sizes sizes = sizes_of(call, &CallRecord::input);
  const InputBlocks in = input_blocks(call.input.layout, sizes);
  return Request::reduce_scatter(in, output(mine(sizes)), op_of(call));
}

Request ShadowCall::scatter(const MadeCall& made, bool is_root) {
  const Sizes sizes = rooted_sizes(made, &CallRecord::input, &CallRecord::output);
  const InputBlocks in = input_blocks(made.one->input.layout, sizes, is_root);
  return Request::scatter(in, output(mine(sizes)), made.one->peer);
}

Request ShadowCall::gather(const MadeCall& made, bool is_root) {
  const Sizes sizes = rooted_sizes(made, &CallRecord::output, &CallRecord::input);
  const ConstBufferView in = input(mine(sizes));
  return Request::gather(in, output_blocks(made.one->output.layout, sizes, is_root),
                         made.one->peer);
}

Request ShadowCall::all_to_all(const MadeCall& made) {
  const SeenCall& call = *made.one;
  Sizes to(static_cast<std::size_t>(shape_.size), 0);
  Sizes from = to;
  if (depends_on_all(call)) {
    for (std::size_t member = 0; member < made.all.size(); ++member) {
      const SeenCall* const other = made.all[member];
      if (other == nullptr) continue;
      to[member] = mine(sizes_of(*other, &CallRecord::output));
      from[member] = mine(sizes_of(*other, &CallRecord::input));
    }
  } else {
    const bool by_input = call.input.layout == Layout::equal;
    to = from = sizes_of(call, by_input ? &CallRecord::input : &CallRecord::output);
  }
  const InputBlocks in = input_blocks(call.input.layout, std::move(to));
  return Request::all_to_all(in, output_blocks(call.output.layout, std::move(from)));
}

// --- Blocks

ShadowCall::Sizes ShadowCall::sizes_of(const SeenCall& call, Side side) const {
  const auto members = static_cast<std::size_t>(shape_.size);
  if (!has_own_sizes(call.*side)) return Sizes(members, (call.*side).count / members);
  const auto& counts = side == &CallRecord::input ? call.counts.input : call.counts.output;
  if (counts.size() != members)
    refuse(call, "its blocks have more sizes than the flight recorder keeps",
           "set HYMN_RECORDER_COUNTS to twice the number of ranks on all of them, give equal "
           "blocks, or use joinables");
  return Sizes(counts.begin(), counts.end());
}

ShadowCall::Sizes ShadowCall::rooted_sizes(const MadeCall& made, Side blocks, Side own) const {
  const SeenCall& call = *made.one;
  Sizes sizes(static_cast<std::size_t>(shape_.size), 0);
  if ((call.*blocks).layout == Layout::equal) {
    std::ranges::fill(sizes, (call.*own).count);
  } else if (tells_blocks(call)) {
    sizes = sizes_of(call, blocks);
  } else {
    // The root has run out: those that have as well give it nothing, nor take anything from it.
    for (std::size_t member = 0; member < made.all.size(); ++member)
      if (made.all[member] != nullptr) sizes[member] = (made.all[member]->*own).count;
  }
  return sizes;
}

InputBlocks ShadowCall::input_blocks(Layout layout, Sizes sizes, bool are_here) {
  given_sizes_ = std::move(sizes);
  const ConstBufferView all = input(are_here ? sum_of(given_sizes_) : 0);
  return cut(layout, all, given_sizes_, are_here, given_list_);
}

OutputBlocks ShadowCall::output_blocks(Layout layout, Sizes sizes, bool are_here) {
  taken_sizes_ = std::move(sizes);
  const BufferView all = output(are_here ? sum_of(taken_sizes_) : 0);
  return cut(layout, all, taken_sizes_, are_here, taken_list_);
}

ConstBufferView ShadowCall::input(std::size_t count) {
  given_ = as_much_of(memory_.given, count * size_of(dtype_));
  return ConstBufferView(given_.data(), count, dtype_);
}

BufferView ShadowCall::output(std::size_t count) {
  taken_ = as_much_of(memory_.taken, count * size_of(dtype_));
  return BufferView(taken_.data(), count, dtype_);
}

}  // namespace hymn
