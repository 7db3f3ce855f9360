// Input and output in one memory are each rank's own choice: every algorithm, with all sets of
// ranks that make it, blocking and not, against exact references.
#include <algorithm>
#include <numeric>

#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

/// Elements of 8 bytes, around where libraries of MPI turn to other algorithms. Nothing, too:
/// buffers of nothing may begin where others do.
constexpr std::array<std::size_t, 6> in_place_lengths = {0, 1, 127, 8191, 8192, 20000};

/// Of three ranks all sets; each of the others does as one of these.
constexpr unsigned sets = 8;
bool is_in(unsigned set, int rank) { return ((set >> rank % 3) & 1u) != 0; }

void run_both_ways(ProcessGroup& group, const CallPlan& plan) {
  SCOPED_TRACE(describe(plan));
  const KnownCall blocking(group, plan);
  if (group.explain(blocking.request()).algorithm.empty()) return;
  group.run(blocking.request(), {.timeout = Timeout::none()});
  blocking.check();
  const KnownCall flying(group, plan);
  group.start(flying.request()).wait();
  flying.check();
}

void every_set(World& world, OpType type) {
  NEEDS_RANKS(2);
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  for (const Road& road : roads_of(free, type)) {
    SCOPED_TRACE(to_string(road));
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    CallPlan plan{.type = type, .dtype = DataType::int64};
    for (const std::size_t length : in_place_lengths) {
      plan.count = has_blocks(type) ? length / static_cast<std::size_t>(world.size()) : length;
      // With few ranks several sets are one.
      for (unsigned set = 0; set < std::min(sets, 1u << world.size()); ++set) {
        plan.in_place = is_in(set, world.rank());
        plan.root = static_cast<int>(set) % world.size();
        plan.salt = static_cast<int>(set);
        run_both_ways(group, plan);
      }
    }
  }
}

RANK_TEST(InPlace, AllReduce) { every_set(world, OpType::all_reduce); }
RANK_TEST(InPlace, Reduce) { every_set(world, OpType::reduce); }
RANK_TEST(InPlace, Gather) { every_set(world, OpType::gather); }
RANK_TEST(InPlace, Scatter) { every_set(world, OpType::scatter); }
RANK_TEST(InPlace, AllGather) { every_set(world, OpType::all_gather); }
RANK_TEST(InPlace, ReduceScatter) { every_set(world, OpType::reduce_scatter); }
RANK_TEST(InPlace, Scan) { every_set(world, OpType::scan); }
RANK_TEST(InPlace, Exscan) { every_set(world, OpType::exscan); }
RANK_TEST(InPlace, AllToAll) { every_set(world, OpType::all_to_all); }

/// All of few ranks; of more another one for each number.
std::vector<int> some_roots(const World& world, unsigned number) {
  if (world.size() > 3) return {static_cast<int>(number) % world.size()};
  std::vector<int> roots(static_cast<std::size_t>(world.size()));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

/// The same of blocks that are given by counts, where there is an own one.
RANK_TEST(InPlace, UnevenBlocks) {
  NEEDS_RANKS(2);
  for (const OpType type :
       {OpType::gather, OpType::scatter, OpType::all_gather, OpType::reduce_scatter})
    for (const Road& road : roads_of(world.group(), type)) {
      SCOPED_TRACE(to_string(road));
      ProcessGroup group = world.new_group(everybody(world), forced(road));
      for (unsigned set = 0; set < std::min(sets, 1u << world.size()); ++set)
        for (int salt = 0; salt < 4; ++salt)  // with each, other blocks are empty
          for (const int root : some_roots(world, set))
            run_both_ways(group, {.type = type,
                                  .dtype = DataType::float64,
                                  .count = 300,
                                  .root = root,
                                  .salt = salt,
                                  .in_place = is_in(set, world.rank()),
                                  .uneven = true});
    }
}

}  // namespace
}  // namespace hymn::test
