// Buffers of many dimensions in any order in memory, as channels-last ones: every collective moves
// and reduces them as they lie, on every road; and where ranks, or the two sides of a call, lay
// them out differently, all hear of it (layout_errors_test.cpp). docs/layouts.md.
#include <array>
#include <numeric>

#include "hymn/coalesce.hpp"
#include "hymn/join.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

/// How one call is made.
struct Way {
  OpType type{};
  Layout form = Layout::equal;
  bool flies = false;
};

/// Makes collectives over arrays of one layout, and looks at each element by its index.
class Caller {
 public:
  Caller(ProcessGroup group, ArrayLayout layout)
      : group_(std::move(group)),
        layout_(std::move(layout)),
        me_(group_.rank()),
        ranks_(group_.size()),
        root_(ranks_ - 1) {}

  void call(const Way& way) {
    way_ = way;
    if (has_input_blocks(way.type) && has_output_blocks(way.type)) return all_to_all();
    if (has_output_blocks(way.type)) return gather();
    if (has_input_blocks(way.type)) return scatter();
    if (way.type == OpType::broadcast) return broadcast();
    reduce();
  }

 private:
  std::int32_t all() const { return ranks_ * (ranks_ + 1) / 2; }
  static std::int32_t moved(int giver, int taker, std::int32_t number) {
    return giver * 1'000'000 + taker * 100'000 + number;
  }
  static std::int32_t term(int taker, std::int32_t number) { return taker * 1000 + number + 1; }
  /// The size of the outermost dimension of what one gives the other.
  std::size_t outer(int giver, int taker) const {
    if (way_.form == Layout::equal)
      return static_cast<std::size_t>(layout_.shape()[layout_.outermost()]);
    return as_size((giver + taker) % 3);  // none, too
  }
  std::vector<std::size_t> outers(bool by_giver) const {
    std::vector<std::size_t> sizes;
    for (int rank = 0; rank < ranks_; ++rank)
      sizes.push_back(by_giver ? outer(rank, root_) : outer(root_, rank));
    return sizes;
  }
  Array block_of(const std::vector<std::size_t>& sizes) const {
    return Array(layout_.with_outer(static_cast<std::int64_t>(sizes[as_size(me_)])));
  }

  void make(const Request& request) {
    made_ = !group_.explain(request).algorithm.empty();
    if (!made_) return;
    if (way_.flies)
      group_.start(request).wait();
    else
      group_.run(request);
  }

  void reduce() {
    Array in(layout_);
    Array out(layout_);
    const auto given = [&](const Sizes& index) {
      return (me_ + 1) * term(0, layout_.number(index));
    };
    in.fill(given);
    make(request_over(way_.type, in.input(), out.view(), root_));
    if (!made_) return;
    in.expect(given);
    if (way_.type == OpType::reduce && me_ != root_) return out.expect_untouched();
    if (way_.type == OpType::exscan && me_ == 0) return out.expect_untouched();
    const std::int32_t times = way_.type == OpType::scan     ? (me_ + 1) * (me_ + 2) / 2
                               : way_.type == OpType::exscan ? me_ * (me_ + 1) / 2
                                                             : all();
    const auto sum = [&](const Sizes& index) { return times * term(0, layout_.number(index)); };
    out.expect(sum);
    if (way_.type != OpType::all_reduce) return;
    make(Request::all_reduce(in.input(), in.view()));
    in.expect([&](const Sizes& index) { return all() * term(0, layout_.number(index)); });
  }

  void broadcast() {
    Array array(layout_);
    const auto given = [&](const Sizes& index) { return moved(root_, 0, layout_.number(index)); };
    if (me_ == root_) array.fill(given);
    make(Request::broadcast(array.view(), root_));
    if (made_) array.expect(given);
  }

  void gather() {
    const bool rooted = way_.type == OpType::gather;
    const std::vector<std::size_t> sizes = outers(true);
    Array in = block_of(sizes);
    in.fill([&](const Sizes& index) { return moved(me_, 0, in.layout().number(index)); });
    BlockArrays out(way_.form, layout_, sizes);
    const bool takes = !rooted || me_ == root_;
    const OutputBlocks blocks = takes || way_.form != Layout::list ? out.outputs() : OutputBlocks();
    make(rooted ? Request::gather(in.input(), blocks, root_)
                : Request::all_gather(in.input(), blocks));
    if (made_ && takes)
      out.expect([](int giver, std::int32_t number) { return moved(giver, 0, number); });
  }

  void scatter() {
    const bool rooted = way_.type == OpType::scatter;
    const std::vector<std::size_t> sizes = outers(false);
    BlockArrays in(way_.form, layout_, sizes);
    in.fill([&](int taker, std::int32_t number) {
      return rooted ? moved(me_, taker, number) : (me_ + 1) * term(taker, number);
    });
    Array out = block_of(sizes);
    const bool gives = !rooted || me_ == root_;
    const InputBlocks blocks = gives || way_.form != Layout::list ? in.inputs() : InputBlocks();
    make(rooted ? Request::scatter(blocks, out.view(), root_)
                : Request::reduce_scatter(blocks, out.view()));
    if (!made_) return;
    out.expect([&](const Sizes& index) {
      const std::int32_t number = out.layout().number(index);
      return rooted ? moved(root_, me_, number) : all() * term(me_, number);
    });
  }

  void all_to_all() {
    std::vector<std::size_t> to;
    std::vector<std::size_t> from;
    for (int rank = 0; rank < ranks_; ++rank) {
      to.push_back(outer(me_, rank));
      from.push_back(outer(rank, me_));
    }
    BlockArrays in(way_.form, layout_, to);
    in.fill([&](int taker, std::int32_t number) { return moved(me_, taker, number); });
    BlockArrays out(way_.form, layout_, from);
    make(Request::all_to_all(in.inputs(), out.outputs()));
    if (made_)
      out.expect([&](int giver, std::int32_t number) { return moved(giver, me_, number); });
  }

  ProcessGroup group_;
  ArrayLayout layout_;
  int me_;
  int ranks_;
  int root_;
  Way way_{};
  bool made_ = false;
};

const std::vector<ArrayLayout>& layouts() {
  static const std::vector<ArrayLayout> all = {
      {{2, 3, 4, 5}, {0, 2, 3, 1}},  // channels last
      {{2, 3, 4, 5}, {3, 2, 1, 0}},  // as Fortran has it
      {{3, 2, 5, 2}, {1, 0, 3, 2}},  // pairs of dimensions changed
      {{2, 3, 4, 5}, {0, 1, 2, 3}},  // nothing changed, but told
      {{2, 3, 1, 2, 3}, {0, 2, 3, 4, 1}},
      {{2, 3, 2, 2, 3}, {0, 2, 3, 4, 1}},  // channels last, of volumes
      {{1, 7, 3, 1}, {0, 2, 3, 1}},        // dimensions of one element
      {{2, 3, 0, 5}, {0, 2, 3, 1}}};       // nothing at all
  return all;
}

void every_way(const ProcessGroup& group, OpType type, const ArrayLayout& layout) {
  Caller caller(group, layout);
  for (const bool flies : {false, true})
    for (const Layout form : {Layout::equal, Layout::counted, Layout::list}) {
      if (form != Layout::equal && !has_blocks(type)) continue;
      SCOPED_TRACE(std::string(to_string(type)) + " of shape " +
                   testing::PrintToString(layout.shape()) + " in order " +
                   testing::PrintToString(layout.order()) + ", form " +
                   std::to_string(static_cast<int>(form)) + (flies ? ", flying" : ""));
      caller.call({type, form, flies});
    }
}

RANK_TEST(Layouts, EveryCollectiveTakesThemAsTheyLie) {
  for (const OpType type : collectives())
    if (type != OpType::barrier)
      for (const ArrayLayout& layout : layouts()) every_way(world.group(), type, layout);
}

RANK_TEST(Layouts, OnEveryRoad) {
  const ArrayLayout large({3, 16, 17, 11}, {0, 2, 3, 1});
  for (const OpType type : collectives()) {
    if (type == OpType::barrier) continue;
    for (const Road& road : roads_of(world.group(), type)) {
      SCOPED_TRACE(to_string(road));
      ProcessGroup group = world.new_group(everybody(world), forced(road));
      every_way(group, type, layouts().front());
      Caller(group, large).call({type});
    }
  }
}

// --- Calls made as one, messages, and calls made beside others

std::vector<Array> some_arrays(int rank) {
  std::vector<Array> arrays;
  for (const ArrayLayout& layout : layouts())
    arrays.emplace_back(layout).fill(
        [&](const Sizes& index) { return (rank + 1) * (layout.number(index) + 1); });
  return arrays;
}

void expect_times(std::vector<Array>& arrays, std::int32_t times) {
  for (Array& array : arrays)
    array.expect([&](const Sizes& index) { return times * (array.layout().number(index) + 1); });
}

std::vector<BufferView> views_of(std::vector<Array>& arrays) {
  std::vector<BufferView> views;
  for (Array& array : arrays) views.push_back(array.view());
  return views;
}

std::int32_t sum_of_ranks(const World& world) { return world.size() * (world.size() + 1) / 2; }

RANK_TEST(Layouts, InCoalescedCalls) {
  std::vector<Array> arrays = some_arrays(world.rank());
  world.group().all_reduce_coalesced(views_of(arrays));
  expect_times(arrays, sum_of_ranks(world));

  arrays = some_arrays(world.rank());
  coalesce(world.group(), [&] {
    for (const BufferView& view : views_of(arrays)) world.group().all_reduce(view);
  });
  expect_times(arrays, sum_of_ranks(world));

  arrays = some_arrays(world.rank());
  broadcast_coalesced(world.group(), views_of(arrays), 1000, world.size() - 1);
  expect_times(arrays, world.size());
}

// What has been told of them may be gone while a call is in flight; not what is in them.
RANK_TEST(Layouts, OfCallsInFlightAreKept) {
  std::vector<Array> arrays = some_arrays(world.rank());
  std::vector<Work> works;
  for (Array& array : arrays) {
    const ArrayLayout gone = array.layout();
    BufferView view = gone.describe(array.view());
    works.push_back(world.group().all_reduce_async(view));
  }
  for (Work& work : works) work.wait();
  expect_times(arrays, sum_of_ranks(world));
}

RANK_TEST(Layouts, OfMessages) {
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  const auto given = some_arrays(world.rank());
  std::vector<Array> taken;
  for (const ArrayLayout& layout : layouts()) taken.emplace_back(layout);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::array<P2POp, 2> both = {P2POp::send(given[i].input(), next),
                                       P2POp::recv(taken[i].view(), last)};
    world.group().batch_isend_irecv(both).wait();
  }
  expect_times(taken, last + 1);
}

// Whoever has run out of input lays its buffers out as the others do.
/// One of these dimensions has one element, and the largest stride.
RANK_TEST(Layouts, OfOneOuterElementAreCutBehindIt) {
  for (const char* path : {"threads", ""}) {
    ProcessGroup group = world.new_group(everybody(world));
    if (ranks_are_threads() && *path != '\0')
      group = world.new_group(everybody(world), {.path = path});
    const auto ranks = static_cast<std::int64_t>(world.size());
    std::vector<std::int32_t> in(12, world.rank());
    std::vector<std::int32_t> out(12 * ranks_as_size(world));
    const Sizes in_shape{1, 3, 1, 4};
    const Sizes in_strides{12, 1, 12, 3};
    const Sizes out_shape{1, 3, ranks, 4};
    const Sizes out_strides{12 * ranks, 1, 12, 3};
    ConstBufferView given(in.data(), in.size(), DataType::int32);
    given.shape = in_shape;
    given.strides = in_strides;
    BufferView taken(out);
    taken.shape = out_shape;
    taken.strides = out_strides;
    const std::vector<std::size_t> counts(ranks_as_size(world), in.size());
    group.all_gather(given, taken, counts);
    for (std::size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(out[i], static_cast<std::int32_t>(i / in.size()));
    group.barrier();
  }
}

/// What one rank knows as complex numbers, channels last, another may know as their parts.
RANK_TEST(Layouts, OfComplexBuffersAndTheirRealViews) {
  const ArrayLayout complex({2, 3, 2, 2}, {0, 2, 3, 1});
  const ArrayLayout parts({2, 3, 2, 2, 2}, {0, 2, 3, 1, 4});
  const auto ranks = static_cast<std::int64_t>(world.size());
  const ArrayLayout all = parts.with_outer(2 * ranks);
  std::vector<float> in(parts.count());
  std::iota(in.begin(), in.end(), static_cast<float>(100 * world.rank()));
  std::vector<float> out(all.count());
  const ConstBufferView as_complex =
      complex.describe(ConstBufferView(in.data(), complex.count(), DataType::complex64));
  const ConstBufferView as_parts = parts.describe(ConstBufferView(in));
  const ConstBufferView given = world.rank() % 2 == 0 ? as_complex : as_parts;
  world.group().all_gather(given, all.describe(BufferView(out)));
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], static_cast<float>(100 * (i / in.size()) + i % in.size()));
  // The parts of a complex number lie together.
  const ArrayLayout planes = ArrayLayout({2, 3, 2, 2, 2}, {0, 4, 2, 3, 1}).with_outer(2 * ranks);
  expect_error(ErrorKind::usage,
               [&] { world.group().all_gather(as_complex, planes.describe(BufferView(out))); },
               {"the elements would change places", "strides [24, 2, 12, 6, 1]"});
}

RANK_TEST(Layouts, AreNotComparedWithThoseOfOneDimension) {
  std::vector<std::int32_t> in{1, 2, 3, 4};
  std::vector<std::int32_t> out(4);
  const Sizes shape{2, 2};
  const Sizes strides{1, 2};
  const Sizes flat{4};
  ConstBufferView given(in.data(), in.size(), DataType::int32);
  given.shape = shape;
  given.strides = strides;
  BufferView taken(out);
  taken.shape = flat;
  world.group().all_reduce(given, taken);
  EXPECT_EQ(out, (std::vector<std::int32_t>{1 * world.size(), 2 * world.size(), 3 * world.size(),
                                            4 * world.size()}));
}

RANK_TEST(Layouts, OfCoalescedCallsThatAreShadowed) {
  NEEDS_RANKS(2);
  const ArrayLayout large = channels_last.with_outer(1000);
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() == 0) return;
    std::vector<Array> arrays;
    for (int i = 0; i < 2; ++i) arrays.emplace_back(large);
    std::vector<BufferView> views;
    for (Array& array : arrays) {
      array.fill([](const Sizes&) { return 1; });
      views.push_back(array.view());
    }
    world.group().all_reduce_coalesced(views);
    for (Array& array : arrays) array.expect([&](const Sizes&) { return world.size() - 1; });
  });
}

RANK_TEST(Layouts, OfCallsThatAreShadowed) {
  NEEDS_RANKS(2);
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() == 0) return;
    const auto ranks = static_cast<std::int64_t>(world.size());
    const int root = world.size() - 1;
    for (const ArrayLayout& layout : layouts()) {
      const ArrayLayout all = layout.with_outer(ranks * layout.shape()[layout.outermost()]);
      const auto ones = [](const Sizes&) { return 1; };
      for (const OpType type : collectives()) {
        if (type == OpType::barrier || is_prefix(type)) continue;
        SCOPED_TRACE(std::string(to_string(type)) + " in order " +
                     testing::PrintToString(layout.order()));
        Array in(has_input_blocks(type) ? all : layout);
        Array out(has_output_blocks(type) ? all : layout);
        in.fill(ones);
        out.fill(ones);
        world.group().run(request_over(type, in.input(), out.view(), root));
        if (reduces(type) && (!has_root(type) || world.rank() == root))
          out.expect([&](const Sizes&) { return root; });
      }
    }
  });
}

}  // namespace
}  // namespace hymn::test
