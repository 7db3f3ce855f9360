// Every algorithm of every collective, forced one by one, against exact references. The algorithms
// are those that `explain` lists, so that one that is added is tested, too.
//
// TEST_EFFORT says how much: "small" (for sanitizers), "usual", or "all" (every cell of the table
// with every length).
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/paths.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

enum class Effort { small, usual, all };

Effort effort() {
  const char* text = std::getenv("TEST_EFFORT");
  const std::string word = text == nullptr ? "usual" : text;
  return word == "all" ? Effort::all : word == "small" ? Effort::small : Effort::usual;
}

/// Around what matters to vectors, cache lines, and small slots.
constexpr std::array<std::size_t, 17> lengths = {0,  1,  2,   3,   7,    15,   16,   17,  63,
                                                 64, 65, 255, 257, 1000, 1023, 1025, 4097};

/// Bytes around which slots and chunks end.
constexpr std::array<std::size_t, 7> edges = {8u << 10,   16u << 10,  64u << 10, 128u << 10,
                                              256u << 10, 512u << 10, 3u << 20};

/// Appends it in place and not.
void add_both_forms(std::vector<CallPlan>& plans, CallPlan plan) {
  for (const bool in_place : {false, true}) {
    plan.in_place = in_place;
    plans.push_back(plan);
  }
}

/// Every cell with some length, and every length with some cells; some of both for a small effort.
void add_sample(std::vector<CallPlan>& plans, OpType type, int ranks, Drawer& drawer) {
  static constexpr std::array<std::size_t, 6> some_lengths = {3, 17, 65, 257, 1000, 1025};
  const bool few = effort() == Effort::small;
  const std::size_t cell_step = few ? 11 : 1;
  const std::size_t length_step = few ? 3 : 1;
  const std::vector<Cell> cells = cells_of(type);
  for (std::size_t i = drawer.below(cell_step); i < cells.size(); i += cell_step)
    plans.push_back(drawer.plan(type, cells[i], drawer.one_of(some_lengths), ranks));
  for (std::size_t i = drawer.below(length_step); i < lengths.size(); i += length_step)
    add_both_forms(plans, drawer.plan(type, drawer.one_of(cells), lengths[i], ranks));
}

void add_large(std::vector<CallPlan>& plans, OpType type, int ranks, Drawer& drawer) {
  const std::vector<Cell> cells = cells_of(type);
  // Blocks are as many as there are ranks.
  const std::size_t parts = has_blocks(type) ? static_cast<std::size_t>(ranks) : 1;
  for (const std::size_t edge : edges) {
    if (effort() == Effort::small && edge > 64u << 10) continue;
    const Cell cell = drawer.one_of(cells);
    const std::size_t count = edge / size_of(cell.dtype) / parts;
    plans.push_back(drawer.plan(type, cell, count + 1, ranks));
    if (edge > 1u << 20) continue;
    plans.push_back(drawer.plan(type, cell, count - 1, ranks));
    plans.push_back(drawer.plan(type, cell, count, ranks));
  }
}

std::vector<CallPlan> plans_for(OpType type, int ranks, std::uint32_t seed) {
  if (type == OpType::barrier) return std::vector<CallPlan>(5, {.type = type});
  Drawer drawer(seed);
  std::vector<CallPlan> plans;
  if (effort() == Effort::all) {
    for (const Cell cell : cells_of(type))
      for (const std::size_t length : lengths)
        add_both_forms(plans, drawer.plan(type, cell, length, ranks));
  } else {
    add_sample(plans, type, ranks, drawer);
  }
  add_large(plans, type, ranks, drawer);
  return plans;
}

// --- What ran, over all ranks, counts of ranks, and tests of this process
// ---------------------------------------------

struct Tally {
  std::size_t runs = 0;
  std::set<std::string> refusals{};
};

/// Runs the call over the one road that the group may take. False where it refuses, with a reason.
bool run_forced(ProcessGroup& group, const Road& road, const CallPlan& plan, Tally& tally) {
  SCOPED_TRACE(to_string(road) + ": " + describe(plan));
  const KnownCall call(group, plan);
  const Explanation why = group.explain(call.request());
  if (why.algorithm.empty()) {
    for (const Candidate& candidate : why.candidates)
      if (Road{candidate.path, candidate.algorithm} == road) {
        EXPECT_NE(candidate.reason, "");
        tally.refusals.insert(candidate.reason);
      }
    expect_error(ErrorKind::unsupported, [&] { group.run(call.request()); }, {road.algorithm});
    return false;
  }
  EXPECT_EQ((Road{why.path, why.algorithm}), road);
  if (plan.salt % 3 == 0) {
    Work work = group.start(call.request());
    EXPECT_EQ(work.algorithm(), road.algorithm);
    work.wait();
  } else {
    group.run(call.request());
  }
  call.check();
  ++tally.runs;
  return true;
}

/// What a refusal may be about when an algorithm never runs in a world: where its ranks are, and
/// how many they are.
bool is_about_the_world(const std::string& reason) {
  for (const std::string_view word : {"host", "core", "two members"})
    if (reason.find(word) != std::string::npos) return true;
  return false;
}

/// An algorithm that never runs has not been tested.
void expect_tested(const World& world, const Road& road, const Tally& tally) {
  if (world.size() == 1 || tally.runs != 0) return;
  for (const std::string& reason : tally.refusals)
    EXPECT_TRUE(is_about_the_world(reason)) << to_string(road) << " has never run: " << reason;
}

void every_algorithm(World& world, OpType type) {
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  auto seed = static_cast<std::uint32_t>(world.size()) * 100;
  for (const Road& road : roads_of(free, type)) {
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    Tally tally;
    for (const CallPlan& plan : plans_for(type, world.size(), ++seed))
      run_forced(group, road, plan, tally);
    expect_tested(world, road, tally);
  }
}

RANK_TEST(Algorithms, AllReduce) { every_algorithm(world, OpType::all_reduce); }
RANK_TEST(Algorithms, Broadcast) { every_algorithm(world, OpType::broadcast); }
RANK_TEST(Algorithms, Reduce) { every_algorithm(world, OpType::reduce); }
RANK_TEST(Algorithms, Gather) { every_algorithm(world, OpType::gather); }
RANK_TEST(Algorithms, Scatter) { every_algorithm(world, OpType::scatter); }
RANK_TEST(Algorithms, AllGather) { every_algorithm(world, OpType::all_gather); }
RANK_TEST(Algorithms, ReduceScatter) { every_algorithm(world, OpType::reduce_scatter); }
RANK_TEST(Algorithms, Scan) { every_algorithm(world, OpType::scan); }
RANK_TEST(Algorithms, Exscan) { every_algorithm(world, OpType::exscan); }
RANK_TEST(Algorithms, AllToAll) { every_algorithm(world, OpType::all_to_all); }
RANK_TEST(Algorithms, Barrier) { every_algorithm(world, OpType::barrier); }

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// All ranks of these tests read one clock, also those of other processes.
void expect_barrier(ProcessGroup& group, ProcessGroup& free, int late) {
  if (group.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::array<std::int64_t, 2> times = {now(), 0};
  group.barrier();
  times[1] = -now();
  free.all_reduce(times, ReduceOp::max);
  EXPECT_LE(times[0], -times[1]) << "a rank has left before rank " << late << " came";
}

RANK_TEST(Algorithms, NobodyLeavesABarrierBeforeAllHaveCome) {
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  for (const Road& road : roads_of(free, OpType::barrier)) {
    SCOPED_TRACE(to_string(road));
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    if (group.explain(Request::barrier()).algorithm.empty()) continue;
    for (int turn = 0; turn < 3; ++turn)
      for (int late = 0; late < world.size(); ++late) expect_barrier(group, free, late);
  }
}

/// Sums that depend on the order of the additions are the same on all ranks nevertheless.
RANK_TEST(Algorithms, SumsHaveTheSameBitsEverywhere) {
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  for (const Road& road : roads_of(free, OpType::all_reduce)) {
    SCOPED_TRACE(to_string(road));
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    for (const std::size_t count : {3u, 257u, 4097u, 60001u}) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] =
            std::pow(-1.7F, static_cast<float>(i % 40)) / (static_cast<float>(world.rank()) + 1.1F);
      if (group.explain(Request::all_reduce(values, values)).algorithm.empty()) continue;
      group.all_reduce(values);
      expect_same_everywhere(free, values);
    }
  }
}

/// What must be there: a path that is missing would pass all tests above.
RANK_TEST(Algorithms, EveryPathOfTheseRanksIsAmongThem) {
  NEEDS_RANKS(2);
  std::set<std::string, std::less<>> found;
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  for (const OpType type : collectives())
    for (const Road& road : roads_of(free, type)) found.insert(road.path);
  std::set<std::string, std::less<>> wanted = {"exchange"};
  if (ranks_are_threads()) wanted.insert("threads");
  if (!ranks_are_threads()) wanted.insert({"mpi", "mpi_p2p", "tcp"});
  for (const std::string_view path : paths::all)
    if (path == "hierarchical" || (path == "shm" && world.host_count() == 1)) wanted.emplace(path);
  for (const std::string& path : wanted) EXPECT_TRUE(found.contains(path)) << path;
}

}  // namespace
}  // namespace hymn::test
