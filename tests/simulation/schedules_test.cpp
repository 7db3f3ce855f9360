// hymn's own code under many schedules: every algorithm over shared memory, shrinking, joining.
// TEST_SCHEDULES says how many of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/paths.hpp"
#include "hymn/hymn.hpp"
#include "tests/simulation/layouts.hpp"
#include "tests/simulation/simulations.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

int schedules() { return static_cast<int>(number_in("TEST_SCHEDULES", 10'000)); }

/// As many ranks as make a difference to some algorithm.
int ranks_of(std::uint64_t seed) { return std::array{2, 3, 4, 2, 3, 5}[seed % 6]; }

SchedulePolicy policy_of(std::uint64_t seed) {
  return seed % 4 == 3 ? SchedulePolicy::priorities : SchedulePolicy::random;
}

/// Lengths around slots, and such that a call takes several rounds of them; calls must be short,
/// for there are many.
std::size_t draw_length(Drawer& drawer, OpType type, const Cell& cell, std::size_t parts) {
  // Now and then more than all slots of two_shot hold.
  if (type == OpType::all_reduce && drawer.one_in(500))
    return (std::size_t{5} << 19) / size_of(cell.dtype);
  static constexpr std::array<std::size_t, 10> bytes = {0,    1,    8,     64,    65,
                                                        1000, 4096, 16384, 16500, 40000};
  return drawer.one_of(bytes) / size_of(cell.dtype) / parts;
}

/// As many calls by this algorithm, one after the other without a rest between.
void call_again_and_again(ProcessGroup& group, OpType type, const Road& road, std::uint64_t seed,
                          int calls, std::map<Road, int>& made) {
  Drawer drawer(seed);
  for (int call = 0; call < calls; ++call) {
    CallPlan plan{.type = type};
    if (type != OpType::barrier) {
      const Cell cell = drawer.one_of(cells_of(type));
      const auto parts = has_blocks(type) ? static_cast<std::size_t>(group.size()) : 1;
      plan = drawer.plan(type, cell, draw_length(drawer, type, cell, parts), group.size());
    }
    const KnownCall known(group, plan);
    if (group.explain(known.request()).algorithm.empty()) continue;
    if (group.rank() == 0) ++made[road];
    if (drawer.one_in(3)) {
      group.start(known.request()).wait();
    } else {
      group.run(known.request());
    }
    known.check();
  }
}

}  // namespace

inline bool operator<(const Road& one, const Road& other) {
  return std::tie(one.path, one.algorithm) < std::tie(other.path, other.algorithm);
}

namespace {

class Schedules : public testing::TestWithParam<OpType> {};

TEST_P(Schedules, OfEveryAlgorithmOverSharedMemory) {
  constexpr int calls_of_a_world = 100;
  std::map<Road, int> made;
  int least = 0;
  for (std::uint64_t seed = 0; least < schedules(); ++seed) {
    const SimulationOptions options{
        .ranks = ranks_of(seed), .seed = seed, .policy = policy_of(seed)};
    // All ranks leave out the same.
    const std::map<Road, int> before = made;
    const auto is_done = [&](const Road& road) {
      const auto found = before.find(road);
      return found != before.end() && found->second >= schedules();
    };
    const SimulationResult result = simulate(options, [&](World& world) {
      ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
      for (const Road& road : roads_of(free, GetParam())) {
        if (road.path != paths::shm || is_done(road)) continue;
        if (world.rank() == 0) made.try_emplace(road, 0);
        ProcessGroup group = world.new_group(everybody(world), forced(road));
        call_again_and_again(group, GetParam(), road, seed, calls_of_a_world, made);
      }
    });
    ASSERT_TRUE(result.ok()) << result.story();
    ASSERT_FALSE(HasFailure()) << result.story();
    ASSERT_FALSE(made.empty());
    least = std::ranges::min_element(made, {}, [](const auto& one) { return one.second; })->second;
    if (seed > 100) {
      ASSERT_GT(least, 0) << "an algorithm never runs";
    }
  }
  for (const auto& [road, count] : made)
    std::printf("%s: %d calls\n", to_string(road).c_str(), count);
}

INSTANTIATE_TEST_SUITE_P(Of, Schedules, testing::ValuesIn(collectives()),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(Schedules, OfShrinking) {
  for (int schedule = 0; schedule < schedules(); ++schedule) {
    const auto seed = static_cast<std::uint64_t>(schedule);
    SimulationOptions options{.ranks = ranks_of(seed) + 1, .seed = seed, .policy = policy_of(seed)};
    // Two deaths meet shrinking itself, and where it confirms what it has made.
    options.random_faults = {.deaths = 1 + schedule % 2, .within_steps = 2500};
    options.death_notice = std::chrono::microseconds(10) * (1 + schedule % 30);
    const SimulationResult result = simulate(options, [](World& w) { sum_and_shrink(w, 20); });
    ASSERT_TRUE(result.ok()) << result.story();
    ASSERT_FALSE(testing::Test::HasFailure()) << result.story();
  }
}

/// What a rank sums in a join, and what it makes for others when it has run out.
class Summing : public Joinable {
 public:
  explicit Summing(ProcessGroup group) : group_(std::move(group)) {}
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }
  std::int32_t sum(std::int32_t mine) {
    group_.all_reduce(mine);
    return mine;
  }

 private:
  class Hook : public JoinHook {
   public:
    explicit Hook(Summing& summing) : summing_(summing) {}
    void main_hook() override { summing_.sum(0); }

   private:
    Summing& summing_;
  };
  ProcessGroup group_;
};

/// As many iterations on each rank as `inputs` says: in each the ranks that still have input are
/// counted, by hooks or in the shadow of the others.
void join_unevenly(World& world, const std::vector<int>& inputs, bool by_hooks) {
  Summing summing(world.group());
  const auto iterate = [&] {
    for (int input = 0; input < inputs[as_size(world.rank())]; ++input) {
      if (by_hooks) Join::notify(summing);
      const auto active = std::ranges::count_if(inputs, [&](int all) { return all > input; });
      EXPECT_EQ(summing.sum(1), active);
    }
  };
  if (by_hooks) {
    Join({&summing}).run(iterate);
  } else {
    Join::shadow_all({world.group()}, iterate);
  }
  EXPECT_EQ(summing.sum(1), world.size());
}

TEST(Schedules, OfJoining) {
  for (int schedule = 0; schedule < schedules(); ++schedule) {
    const auto seed = static_cast<std::uint64_t>(schedule);
    const SimulationOptions options{
        .ranks = ranks_of(seed), .seed = seed, .policy = policy_of(seed)};
    std::vector<int> inputs;
    for (int rank = 0; rank < options.ranks; ++rank)
      inputs.push_back((schedule / 7 + rank * (1 + schedule % 3)) % 5);
    const bool by_hooks = schedule % 3 == 0;
    const SimulationResult result =
        simulate(options, [&](World& world) { join_unevenly(world, inputs, by_hooks); });
    ASSERT_TRUE(result.ok()) << result.story();
    ASSERT_FALSE(testing::Test::HasFailure()) << result.story();
  }
}

}  // namespace
}  // namespace hymn::test
