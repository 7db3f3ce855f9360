// Groups made and destroyed again and again: their communicators are used again, so that MPI does
// not run out of context ids, and nothing is made that is not needed.
#include <algorithm>
#include <numeric>
#include <vector>

#include "base/sanitizers.hpp"
#include "tests/mpi/check.hpp"
#include "tests/support/create_group.hpp"

namespace hymn::test {
namespace {

void check_group(ProcessGroup& group) {
  if (!group.is_member()) return;
  std::int64_t sum = group.rank() + 1;
  group.all_reduce(view_of(sum));
  CHECK(sum == group.size() * (group.size() + 1) / 2);
}

/// Lists of ranks that overlap in all ways.
std::vector<std::vector<int>> some_lists(int ranks) {
  std::vector<int> everybody(static_cast<std::size_t>(ranks));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::vector<std::vector<int>> lists = {everybody, {0}, {ranks - 1}};
  if (ranks > 1) lists.push_back({everybody.begin() + 1, everybody.end()});
  if (ranks > 2) lists.push_back({everybody.begin(), everybody.end() - 1});
  if (ranks > 3) lists.push_back({0, 2});
  return lists;
}

// Sanitized code is slow; what runs out is found without.
constexpr int shorter = sanitized ? 5 : 1;

/// Hundreds of groups of each list, one at a time: one communicator each will do.
void check_one_at_a_time(World& world) {
  const int before = create_group().calls;
  const auto lists = some_lists(world.size());
  for (int cycle = 0; cycle < 500 / shorter; ++cycle) {
    for (const auto& list : lists) {
      ProcessGroup group = world.new_group(list);
      if (cycle % 50 == 0) check_group(group);
      if (cycle % 2 == 0) group.destroy();  // else with its last handle
    }
  }
  CHECK(create_group().calls - before <= static_cast<int>(lists.size()));
}

/// Several groups of the same ranks at the same time, ended in another order on every rank.
void check_several_at_a_time(World& world) {
  const int before = create_group().calls;
  constexpr int at_once = 10;
  std::vector<int> everybody = some_lists(world.size()).front();
  for (int cycle = 0; cycle < 50 / shorter; ++cycle) {
    std::vector<ProcessGroup> groups;
    std::vector<Work> works;
    for (int i = 0; i < at_once; ++i) groups.push_back(world.new_group(everybody));
    // All are in use at once: none may hear what was meant for another.
    std::vector<std::int32_t> sums(at_once);
    for (int i = 0; i < at_once; ++i) {
      sums[static_cast<std::size_t>(i)] = i;
      works.push_back(groups[static_cast<std::size_t>(i)].all_reduce_async(
          view_of(sums[static_cast<std::size_t>(i)])));
    }
    for (int i = at_once; i-- > 0;) {
      works[static_cast<std::size_t>(i)].wait();
      CHECK(sums[static_cast<std::size_t>(i)] == i * world.size());
    }
    std::rotate(groups.begin(), groups.begin() + (world.rank() + cycle) % at_once, groups.end());
    for (ProcessGroup& group : groups) group.destroy();
    world.group().barrier();
  }
  CHECK(create_group().calls - before <= at_once);
}

/// Worlds, too, leave nothing behind.
void check_worlds() {
  for (int cycle = 0; cycle < 100 / shorter; ++cycle) {
    World world;
    check_group(world.group());
    ProcessGroup group = world.new_group({0});
    check_group(group);
  }
}

void run() {
  {
    World world;
    CHECK(create_group().calls == 1);  // that of all ranks; else nothing is counted here
    check_one_at_a_time(world);
    check_several_at_a_time(world);
    check_group(world.group());
  }
  check_worlds();
}

}  // namespace
}  // namespace hymn::test

int main() {
  hymn::test::run();
  return 0;
}
