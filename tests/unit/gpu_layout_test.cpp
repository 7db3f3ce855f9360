// Arrays in the memory of GPUs in any order of their dimensions, as channels-last ones, with
// doubles of the driver and of NCCL (toy_gpus.hpp): each element is where it belongs.
// docs/layouts.md.
#include <array>
#include <functional>
#include <memory>

#include "tests/support/array_layout.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

const std::vector<ArrayLayout>& layouts() {
  static const std::vector<ArrayLayout> all = {{{2, 3, 4, 5}, {0, 2, 3, 1}},
                                               {{2, 3, 4, 5}, {3, 2, 1, 0}},
                                               {{1, 7, 3, 1}, {0, 2, 3, 1}},
                                               {{2, 3, 0, 5}, {0, 2, 3, 1}}};
  return all;
}

/// An array on a GPU with memory on both sides that is not its own.
class Array {
 public:
  using Content = std::function<std::int32_t(const Sizes& index)>;
  static constexpr std::size_t margin = 5;
  static constexpr std::int32_t untouched = -77;

  Array(ToyGpus& gpus, int gpu, ArrayLayout layout, const Content& content)
      : layout_(std::move(layout)), memory_(gpus, gpu, values(layout_, content)) {}
  BufferView view() const {
    return layout_.describe(memory_.view().slice(margin, layout_.count()));
  }
  void expect(const Content& content) const {
    EXPECT_EQ(memory_.values(), values(layout_, content));
  }

 private:
  static Ints values(const ArrayLayout& layout, const Content& content) {
    Ints values(layout.count() + 2 * margin, untouched);
    layout.for_each([&](const Sizes& i) { values[margin + layout.place(i)] = content(i); });
    return values;
  }

  ArrayLayout layout_;
  Buffer memory_;
};

class GpuLayouts : public testing::TestWithParam<int> {
 protected:
  ~GpuLayouts() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }
  int size() const { return GetParam(); }
  std::int32_t all() const { return size() * (size() + 1) / 2; }
  /// On every rank, with each layout.
  void run(const std::function<void(World&, const ArrayLayout&)>& body, const Config& config = {}) {
    gpus.run(
        [&](World& world) {
          for (const ArrayLayout& layout : layouts()) {
            SCOPED_TRACE(testing::PrintToString(layout.order()));
            body(world, layout);
          }
        },
        {}, config);
  }
  /// Blocks of all ranks, behind each other in memory.
  ArrayLayout blocks(const ArrayLayout& layout) const {
    return layout.with_outer(size() * layout.shape()[layout.outermost()]);
  }
  /// The content of such blocks, by the index in each.
  static Array::Content by_block(
      const ArrayLayout& layout,
      const std::function<std::int32_t(std::int32_t block, std::int32_t number)>& content) {
    return [&layout, content](const Sizes& index) {
      Sizes inner = index;
      const std::int64_t each = layout.shape()[layout.outermost()];
      inner[layout.outermost()] %= each;
      const std::int64_t block = index[layout.outermost()] / each;
      return content(static_cast<std::int32_t>(block), layout.number(inner));
    };
  }
  ToyGpus gpus{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Ranks, GpuLayouts, testing::Values(1, 2, 3));

TEST_P(GpuLayouts, OfWholeBuffers) {
  run([this](World& world, const ArrayLayout& layout) {
    const int me = world.rank();
    const int root = size() - 1;
    ProcessGroup group = world.group();
    const auto times = [&](std::int32_t factor) {
      return [&layout, factor](const Sizes& i) { return factor * (layout.number(i) + 1); };
    };
    const Array in(gpus, me, layout, times(me + 1));
    const Array out(gpus, me, layout, times(0));
    group.all_reduce(in.view(), out.view());
    in.expect(times(me + 1));
    out.expect(times(all()));
    const Array summed(gpus, me, layout, times(0));
    group.reduce(in.view(), summed.view(), root);
    summed.expect(times(me == root ? all() : 0));
    group.all_reduce_async(in.view()).wait();
    in.expect(times(all()));

    const Array cast(gpus, me, layout, times(me + 1));
    group.broadcast(cast.view(), root);
    cast.expect(times(root + 1));
    if (size() == 1) return;
    const Array taken(gpus, me, layout, times(0));
    const Array given(gpus, me, layout, times(me + 1));
    const int next = (me + 1) % size();
    const int last = (me + size() - 1) % size();
    const std::array<P2POp, 2> both = {P2POp::send(given.view(), next),
                                       P2POp::recv(taken.view(), last)};
    group.batch_isend_irecv(both).wait();
    taken.expect(times(last + 1));
  });
}

TEST_P(GpuLayouts, OfBlocks) {
  run([this](World& world, const ArrayLayout& layout) {
    const int me = world.rank();
    const int root = size() - 1;
    ProcessGroup group = world.group();
    const auto moved = [](std::int32_t giver, std::int32_t taker, std::int32_t number) {
      return giver * 100'000 + taker * 1000 + number;
    };
    const auto nothing = [](const Sizes&) { return -1; };
    const Array mine(gpus, me, layout,
                     [&](const Sizes& i) { return moved(me, 0, layout.number(i)); });
    const auto gathered =
        by_block(layout, [&](auto giver, auto number) { return moved(giver, 0, number); });
    const Array all_of(gpus, me, blocks(layout), nothing);
    group.all_gather(mine.view(), all_of.view());
    all_of.expect(gathered);
    const Array at_root(gpus, me, blocks(layout), nothing);
    group.gather(mine.view(), at_root.view(), root);
    at_root.expect(me == root ? gathered : nothing);

    const Array split(gpus, me, blocks(layout), by_block(layout, [&](auto taker, auto number) {
                        return moved(me, taker, number);
                      }));
    const Array part(gpus, me, layout, nothing);
    group.scatter(split.view(), part.view(), root);
    part.expect([&](const Sizes& i) { return moved(root, me, layout.number(i)); });
    const Array swapped(gpus, me, blocks(layout), nothing);
    group.all_to_all(split.view(), swapped.view());
    swapped.expect(
        by_block(layout, [&](auto giver, auto number) { return moved(giver, me, number); }));
    group.reduce_scatter(split.view(), part.view());
    part.expect([&](const Sizes& i) {
      return (all() - size()) * 100'000 + size() * (me * 1000 + layout.number(i));
    });
  });
}

TEST_P(GpuLayouts, InLists) {
  run([this](World& world, const ArrayLayout& layout) {
    const int me = world.rank();
    const auto times = [&](std::int32_t factor) {
      return [&layout, factor](const Sizes& i) { return factor * (layout.number(i) + 1); };
    };
    const Array mine(gpus, me, layout, times(me + 1));
    std::vector<std::unique_ptr<Array>> arrays;
    std::vector<BufferView> outs;
    for (int rank = 0; rank < size(); ++rank) {
      arrays.push_back(std::make_unique<Array>(gpus, me, layout, times(0)));
      outs.push_back(arrays.back()->view());
    }
    world.group().all_gather(mine.view(), outs);
    for (int rank = 0; rank < size(); ++rank)
      arrays[static_cast<std::size_t>(rank)]->expect(times(rank + 1));
    const std::vector<ConstBufferView> ins(outs.begin(), outs.end());
    world.group().reduce_scatter(ins, mine.view());
    mine.expect(times(size() * (me + 1)));
    world.group().all_reduce_coalesced(outs);
    for (int rank = 0; rank < size(); ++rank)
      arrays[static_cast<std::size_t>(rank)]->expect(times(size() * (rank + 1)));
  });
}

TEST_P(GpuLayouts, ThroughMemoryOfTheHost) {
  run([this](World& world, const ArrayLayout& layout) {
    const int me = world.rank();
    const auto times = [&](std::int32_t factor) {
      return [&layout, factor](const Sizes& i) { return factor * (layout.number(i) + 1); };
    };
    ProcessGroup group = world.new_group(world.group().membership().ranks, {.path = "^nccl"});
    const Array in(gpus, me, layout, times(me + 1));
    const Array out(gpus, me, layout, times(0));
    group.all_reduce(in.view(), out.view());
    out.expect(times(all()));
    const Array gathered(gpus, me, blocks(layout), times(0));
    group.all_gather(in.view(), gathered.view());
    gathered.expect(
        by_block(layout, [](auto giver, auto number) { return (giver + 1) * (number + 1); }));
  });
}

TEST_P(GpuLayouts, ThatCannotBeTakenAreRefused) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    const auto ones = [](const Sizes&) { return 1; };
    const Array channels_last(gpus, me, layouts()[0], ones);
    const Array reversed(gpus, me, layouts()[1], ones);
    EXPECT_THAT(thrown_by<UsageError>(
                    [&] { world.group().all_reduce(channels_last.view(), reversed.view()); }),
                HasSubstr("change places"));
    BufferView bad = channels_last.view();
    const Sizes with_gaps = {120, 2, 30, 6};
    bad.strides = with_gaps;
    EXPECT_THAT(thrown_by<UsageError>([&] { world.group().all_reduce(bad); }),
                HasSubstr("gaps or overlaps"));
    channels_last.expect(ones);
    EXPECT_EQ(world.group().collective_sequence(), 0u);
  });
}

TEST_P(GpuLayouts, OfOtherRanksAreComparedInDetail) {
  if (size() == 1) return;
  gpus.run(
      [this](World& world) {
        const bool is_other = world.rank() == size() - 1;
        const auto ones = [](const Sizes&) { return 1; };
        const Array array(gpus, world.rank(), layouts()[is_other ? 1 : 0], ones);
        EXPECT_THAT(thrown_by<UsageError>([&] { world.group().all_reduce(array.view()); }),
                    HasSubstr("[2, 3, 4, 5] with strides [60, 1, 15, 3] on rank 0, but "
                              "[2, 3, 4, 5] with strides [1, 2, 6, 24] on rank"));
        array.expect(ones);
      },
      {.checks = CheckLevel::detail});
}

}  // namespace
}  // namespace hymn::test
