// Collective-level join: ranks that have run out make whatever collectives the others still make.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "hymn/coalesce.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using Inputs = std::function<int(int rank)>;

/// The ranks that are still there in this iteration.
std::vector<int> active_in(const ProcessGroup& group, int iteration, const Inputs& inputs_of) {
  std::vector<int> active;
  for (const int rank : ranks_of(group))
    if (inputs_of(rank) > iteration) active.push_back(rank);
  return active;
}

/// One of those that have most; the others run out before it, so that it can be a root.
int longest_of(const ProcessGroup& group, const Inputs& inputs_of) {
  return *std::ranges::max_element(ranks_of(group), {}, inputs_of);
}

Buffer zeros(DataType dtype, std::size_t count) {
  Buffer buffer(dtype, count);
  std::fill_n(buffer.data(), buffer.bytes(), std::byte{0});
  return buffer;
}

/// Blocks of those that are there as each of them fills its own for `salt`; zeros of the others.
void expect_blocks(const ProcessGroup& group, BufferView all, const std::vector<int>& active,
                   int salt) {
  OutputBlocks::equal(all).for_each(group.size(), [&](int member, BufferView block) {
    const int rank = group.global_rank(member);
    if (std::ranges::count(active, rank) != 0)
      expect_filled(block, rank, salt);
    else
      expect_equal(zeros(block.dtype, block.count), block);
  });
}

/// Makes collectives on a group, and looks at their results.
class Caller {
 public:
  Caller(ProcessGroup group, int rank, Inputs inputs_of)
      : group_(std::move(group)), rank_(rank), inputs_of_(std::move(inputs_of)) {}

  static constexpr int kinds = 9;
  void call(int kind, std::size_t count, int iteration) {
    active_ = active_in(group_, iteration, inputs_of_);
    root_ = longest_of(group_, inputs_of_);
    count_ = count;
    all_ = count * as_size(group_.size());
    using Call = void (Caller::*)();
    constexpr std::array<Call, kinds> calls = {
        &Caller::all_reduce, &Caller::reduce,         &Caller::broadcast,
        &Caller::gather,     &Caller::scatter,        &Caller::all_gather,
        &Caller::all_to_all, &Caller::reduce_scatter, &Caller::barrier};
    (this->*calls[as_size(kind)])();
  }

 private:
  bool is_root() const { return rank_ == root_; }
  static constexpr DataType dtype = DataType::int32;

  void all_reduce() {
    Buffer mine = reduction_input(DataType::float64, ReduceKind::sum, rank_, count_);
    group_.all_reduce(mine);
    expect_equal(reduction_result(DataType::float64, ReduceKind::sum, active_, count_), mine);
  }
  void reduce() {
    const Buffer mine = reduction_input(dtype, ReduceKind::max, rank_, count_);
    Buffer out(dtype, count_);
    group_.reduce(mine, out, root_, ReduceOp::max);
    if (is_root()) expect_equal(reduction_result(dtype, ReduceKind::max, active_, count_), out);
  }
  void broadcast() {
    Buffer mine = filled(dtype, count_, rank_);
    group_.broadcast(mine, root_);
    expect_filled(mine, root_);
  }
  void gather() {
    Buffer out(dtype, is_root() ? all_ : 0);
    group_.gather(filled(dtype, count_, rank_, 3), out, root_);
    if (is_root()) expect_blocks(group_, out, active_, 3);
  }
  void scatter() {
    Buffer in(dtype, is_root() ? all_ : 0);
    if (is_root())
      OutputBlocks::equal(in).for_each(group_.size(), [&](int member, BufferView block) {
        fill(block, rank_, group_.global_rank(member));
      });
    Buffer out(dtype, count_);
    group_.scatter(in, out, root_);
    expect_filled(out, root_, rank_);
  }
  void all_gather() {
    BlockBuffer blocks(dtype, group_.size(), count_);
    group_.all_gather(filled(dtype, count_, rank_, 5), blocks.view());
    expect_blocks(group_, blocks.view(), active_, 5);
    std::vector<BufferView> list;
    for (int member = 0; member < group_.size(); ++member) list.push_back(blocks.block(member));
    group_.all_gather(filled(dtype, count_, rank_, 6), list);
    expect_blocks(group_, blocks.view(), active_, 6);
  }
  void all_to_all() {
    Buffer in(dtype, all_);
    OutputBlocks::equal(in).for_each(group_.size(), [&](int member, BufferView block) {
      fill(block, rank_, group_.global_rank(member));
    });
    Buffer out(dtype, all_);
    group_.all_to_all(in, out);
    expect_blocks(group_, out, active_, rank_);
  }
  void reduce_scatter() {
    const Buffer in = reduction_input(dtype, ReduceKind::sum, rank_, all_);
    Buffer out(dtype, count_);
    group_.reduce_scatter(in, out);
    Buffer whole = reduction_result(dtype, ReduceKind::sum, active_, all_);
    expect_equal(whole.slice(as_size(group_.rank()) * count_, count_), out);
  }
  void barrier() { group_.barrier(); }

  ProcessGroup group_;
  int rank_;
  Inputs inputs_of_;
  std::vector<int> active_;
  int root_ = -1;
  std::size_t count_ = 0;
  std::size_t all_ = 0;
};

RANK_TEST(Shadow, OfEveryCollective) {
  const Inputs inputs_of = [](int rank) { return rank % 4; };
  Caller caller(world.group(), world.rank(), inputs_of);
  const std::uint64_t before = world.group().collective_sequence();
  std::uint64_t mine = 0;
  const std::uint64_t shadowed = Join::shadow_all({world.group()}, [&] {
    for (int iteration = 0; iteration < inputs_of(world.rank()); ++iteration)
      for (const std::size_t count : {1u, 64u, 5000u})
        for (int kind = 0; kind < Caller::kinds; ++kind) caller.call(kind, count, iteration);
    mine = world.group().collective_sequence() - before;
  });
  // Two all_gathers; and one barrier at the end.
  const int most = inputs_of(longest_of(world.group(), inputs_of));
  EXPECT_EQ(mine + shadowed, static_cast<std::uint64_t>(most) * 3 * (Caller::kinds + 1));
  EXPECT_EQ(world.group().collective_sequence(), before + mine + shadowed + 1);
  expect_world_works(world);
}

RANK_TEST(Shadow, ChangesNoReductionOfAnyType) {
  NEEDS_RANKS(2);
  std::vector<int> active(ranks_as_size(world) - 1);
  std::iota(active.begin(), active.end(), 1);
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() == 0) return;
    for (const DataType dtype : all_dtypes())
      for (const ReduceKind kind : all_kinds()) {
        // Of an average the divisor is another.
        if (!is_defined(dtype, kind) || kind == ReduceKind::avg) continue;
        SCOPED_TRACE(cell_name(dtype, kind));
        Buffer mine = reduction_input(dtype, kind, world.rank(), 67);
        world.group().all_reduce(mine, op_of(kind, dtype, world.rank()));
        expect_equal(reduction_result(dtype, kind, active, 67), mine);
      }
  });
}

RANK_TEST(Shadow, KeepsTheSignOfAZero) {
  NEEDS_RANKS(2);
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() == 0) return;
    double value = -0.0;
    world.group().all_reduce(view_of(value));
    EXPECT_TRUE(std::signbit(value));
  });
}

RANK_TEST(Shadow, AveragesAreOverAllRanks) {
  NEEDS_RANKS(2);
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() == 0) return;
    double value = world.size();
    world.group().all_reduce(view_of(value), ReduceOp::avg);
    EXPECT_DOUBLE_EQ(value, world.size() - 1);
  });
}

RANK_TEST(Shadow, OfWhatIsInFlight) {
  constexpr std::size_t works = 40;
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() != world.size() - 1) return;
    std::vector<std::int32_t> values(works * 100, 7);
    std::vector<Work> in_flight;
    for (std::size_t i = 0; i < works; ++i)
      in_flight.push_back(
          world.group().all_reduce_async(BufferView(values).slice(i * 100, 100), ReduceOp::sum));
    for (Work& work : in_flight) work.wait();
    EXPECT_EQ(values, std::vector<std::int32_t>(works * 100, 7));
  });
}

RANK_TEST(Shadow, OfSeveralGroupsInAnyOrder) {
  NEEDS_RANKS(3);
  ProcessGroup odd_ones = world.new_group({0, 2}, {.description = "pair"});
  ProcessGroup second = fresh_group(world, "second");
  const std::array<ProcessGroup, 3> groups = {world.group(), odd_ones, second};
  const Inputs inputs_of = [](int rank) { return rank + 1; };
  Join::shadow_all(groups, [&] {
    for (int iteration = 0; iteration < inputs_of(world.rank()); ++iteration)
      for (const int which : {0, 1, 1, 2, 0}) {
        const ProcessGroup& group = groups[as_size(which)];
        if (!group.is_member()) continue;
        Caller caller(group, world.rank(), inputs_of);
        caller.call((iteration + which) % Caller::kinds, 10, iteration);
      }
  });
  expect_world_works(world);
}

RANK_TEST(Shadow, AgainAndAgain) {
  for (int epoch = 0; epoch < 6; ++epoch) {
    const Inputs inputs_of = [&](int rank) { return (rank * 3 + epoch * 2) % 5; };
    Caller caller(world.group(), world.rank(), inputs_of);
    Join::shadow_all({world.group()}, [&] {
      for (int iteration = 0; iteration < inputs_of(world.rank()); ++iteration)
        caller.call((iteration + epoch) % Caller::kinds, 33, iteration);
    });
    expect_world_works(world);
  }
}

RANK_TEST(Shadow, OfNothing) {
  EXPECT_EQ(Join::shadow_all({world.group()}, [] {}), 0u);
  ProcessGroup first = world.new_group({0});
  int runs = 0;
  EXPECT_EQ(Join::shadow_all({first}, [&] { ++runs; }), 0u);
  EXPECT_EQ(runs, 1);
}

// Rank r makes r + 1 iterations, each of one coalesced all_reduce, broadcast and reduce_scatter.
RANK_TEST(Shadow, OfCoalescedCalls) {
  ProcessGroup& group = world.group();
  const int last = world.size() - 1;
  const std::uint64_t shadowed = Join::shadow_all({group}, [&] {
    for (int iteration = 0; iteration <= world.rank(); ++iteration) {
      const auto active = static_cast<float>(world.size() - iteration);
      std::array<std::vector<float>, 2> sums{std::vector<float>(3, 1.0f),
                                             std::vector<float>(5, 2.0f)};
      coalesce(group, [&] {
        for (auto& sum : sums) group.all_reduce(sum);
      });
      EXPECT_EQ(sums[0], std::vector<float>(3, active));
      EXPECT_EQ(sums[1], std::vector<float>(5, 2.0f * active));
      std::array<std::vector<float>, 2> given{std::vector<float>(4), std::vector<float>(4)};
      if (world.rank() == last) given = {std::vector<float>(4, 7.0f), std::vector<float>(4, 8.0f)};
      coalesce(group, [&] {
        for (auto& one : given) group.broadcast(one, last);
      });
      EXPECT_EQ(given[1], std::vector<float>(4, 8.0f));
      std::vector<float> all(2 * as_size(world.size()), 1.0f);
      std::array<std::vector<float>, 2> parts{std::vector<float>(2), std::vector<float>(2)};
      coalesce(group, [&] {
        for (auto& part : parts) group.reduce_scatter(all, part);
      });
      EXPECT_EQ(parts[1], std::vector<float>(2, active));
    }
  });
  EXPECT_EQ(shadowed, 3 * as_size(last - world.rank()));
}

// As records do not tell its blocks, it cannot be made beside the others.
RANK_TEST(Shadow, OfCoalescedCallsOverGivenBlocksIsRefused) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  const std::vector<std::size_t> counts(as_size(world.size()), 1);
  const std::span<float> all = lasting_floats(counts.size());
  const std::span<float> mine = lasting_floats(1);
  const std::string text = error_text([&] {
    Join::shadow_all({group}, [&] {
      if (world.rank() == 0) return;
      coalesce(group, [&] { group.all_gather(mine, all, counts); });
    });
  });
  EXPECT_NE(text.find("not recorded how its blocks lie"), std::string::npos) << text;
  world.group().barrier();  // who left before would be the reason
}

// Nor do they tell how much of it travels together, which all members must cut alike.
RANK_TEST(Shadow, OfBroadcastCoalescedIsRefused) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  const std::span<float> values = lasting_floats(64);
  const std::array<BufferView, 2> views{BufferView(values).slice(0, 32),
                                        BufferView(values).slice(32, 32)};
  const std::string text = error_text([&] {
    Join::shadow_all({group}, [&] {
      if (world.rank() != 0) broadcast_coalesced(group, views, 64, /*root=*/1);
    });
  });
  EXPECT_NE(text.find("not recorded how much of it travels together"), std::string::npos) << text;
  world.group().barrier();  // who left before would be the reason
}

/// The same on all ranks, from one number.
RANK_TEST(Shadow, OfCallsAtRandom) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> inputs(ranks_as_size(world));
    for (int& input : inputs) input = static_cast<int>(random() % 6);
    const Inputs inputs_of = [&](int rank) { return inputs[as_size(rank)]; };
    Caller caller(world.group(), world.rank(), inputs_of);
    const unsigned calls = 1 + random() % 4;
    Join::shadow_all({world.group()}, [&] {
      for (int iteration = 0; iteration < inputs_of(world.rank()); ++iteration)
        for (unsigned call = 0; call < calls; ++call) {
          std::mt19937 choice(seed * 1000 + static_cast<unsigned>(iteration) * 10 + call);
          const int kind = static_cast<int>(choice() % Caller::kinds);
          caller.call(kind, choice() % 300, iteration);
        }
    });
  }
}

}  // namespace
}  // namespace hymn::test
