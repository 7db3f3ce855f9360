// The beginning and the end of groups and worlds, in any order.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(ranks_as_size(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void expect_count_of_ranks(ProcessGroup& group) {
  std::int32_t one = 1;
  group.all_reduce(view_of(one));
  EXPECT_EQ(one, group.size());
}

void expect_ended(ProcessGroup& group) {
  std::int32_t one = 1;
  EXPECT_TRUE(group.is_destroyed());
  expect_error(ErrorKind::usage, [&] { group.all_reduce(view_of(one)); }, {"destroyed"});
  expect_error(ErrorKind::usage, [&] { (void)group.all_reduce_async(view_of(one)); },
               {"destroyed"});
  expect_error(ErrorKind::usage, [&] { group.barrier(); }, {"destroyed"});
  EXPECT_EQ(one, 1);
}

// --- As torch.distributed does it

/// Starts a sum on it, and does not wait.
void sum_a_hundred(ProcessGroup& group, std::vector<float>& values) {
  values.assign(100, 1.0f);
  (void)group.all_reduce_async(values);
}

RANK_TEST(Lifecycle, test_close_pg) {
  ProcessGroup group = world.group();
  std::vector<float> values;
  sum_a_hundred(group, values);
  world.destroy();
  EXPECT_EQ(values, std::vector<float>(100, static_cast<float>(group.size())));
  expect_ended(group);
}

RANK_TEST(Lifecycle, test_pass_default_pg) {
  ProcessGroup default_group = world.group();
  EXPECT_FALSE(world.is_destroyed());
  world.destroy();
  EXPECT_TRUE(world.is_destroyed());
  expect_ended(default_group);
}

RANK_TEST(Lifecycle, test_abort_in_destroy_pg) {
  ProcessGroup group = world.new_group(all_ranks(world));
  std::vector<float> values;
  sum_a_hundred(group, values);
  group.destroy();
  expect_ended(group);
  expect_count_of_ranks(world.group());
}

RANK_TEST(Lifecycle, test_destruct_before_terminate_pg) {
  const std::vector<float> sums(100, static_cast<float>(world.size()));
  std::vector<float> values;
  {
    World dropped = std::move(world);
    sum_a_hundred(dropped.group(), values);
  }
  EXPECT_EQ(values, sums);
}

RANK_TEST(Lifecycle, test_close_multi_pg_unordered) {
  NEEDS_RANKS(2);
  expect_count_of_ranks(world.group());
  std::vector<ProcessGroup> pairs = {world.new_group({0, 1}), world.new_group({0, 1})};
  for (ProcessGroup& pair : pairs)
    if (pair.is_member()) expect_count_of_ranks(pair);
  if (world.rank() == 0) std::swap(pairs[0], pairs[1]);
  while (!pairs.empty()) {
    pairs.back().destroy();
    pairs.pop_back();
  }
  world.destroy();
}

// --- Ends

RANK_TEST(Lifecycle, GroupsEndInAnotherOrderOnEachRank) {
  std::vector<ProcessGroup> groups;
  for (int i = 0; i < 4; ++i) groups.push_back(world.new_group(all_ranks(world)));
  for (ProcessGroup& group : groups) expect_count_of_ranks(group);
  std::rotate(groups.begin(), groups.begin() + world.rank() % 4, groups.end());
  for (ProcessGroup& group : groups) {
    group.destroy();
    expect_ended(group);
    group.destroy();  // twice is fine
  }
  expect_count_of_ranks(world.group());
}

RANK_TEST(Lifecycle, DestroyIsLocal) {
  ProcessGroup group = world.new_group(all_ranks(world));
  expect_count_of_ranks(group);
  // Rank 0 ends the group before the others have even begun to.
  if (world.rank() == 0) group.destroy();
  world.group().barrier();
  if (world.rank() != 0) group.destroy();
  expect_count_of_ranks(world.group());
}

RANK_TEST(Lifecycle, AllCopiesOfAHandleEndTogether) {
  ProcessGroup group = world.new_group(all_ranks(world));
  ProcessGroup copy = group;
  group.destroy();
  expect_ended(copy);
}

RANK_TEST(Lifecycle, DestroyWaitsForPendingWork) {
  ProcessGroup group = world.new_group(all_ranks(world));
  std::vector<std::int64_t> values(1000, world.rank() + 1);
  Work work = group.all_reduce_async(values);
  group.destroy();
  EXPECT_TRUE(work.is_completed());
  EXPECT_EQ(work.error(), nullptr);
  EXPECT_NO_THROW(work.wait());
  EXPECT_EQ(values[999], world.size() * (world.size() + 1) / 2);
  expect_ended(group);
}

RANK_TEST(Lifecycle, DestroyGivesUpWorkThatCannotComplete) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group(all_ranks(world));
  group.set_timeout(200ms);
  Buffer in(DataType::int32, 4);
  Work work;
  if (world.rank() == 0) work = group.irecv(in, 1);  // which nobody sends
  const auto before = std::chrono::steady_clock::now();
  group.destroy();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
  if (world.rank() == 0) {
    EXPECT_TRUE(work.is_completed());
    EXPECT_NE(work.error(), nullptr);
    expect_error(ErrorKind::aborted, [&] { work.wait(); });
    expect_untouched(in);
  }
  expect_count_of_ranks(world.group());
}

RANK_TEST(Lifecycle, WorkOutlivesTheHandleOfItsGroup) {
  std::vector<float> values(100, 1.0f);
  Work work;
  {
    ProcessGroup group = world.new_group(all_ranks(world));
    work = group.all_reduce_async(values);
  }
  work.wait();
  EXPECT_EQ(values[0], static_cast<float>(world.size()));
}

RANK_TEST(Lifecycle, DroppedWorkStillCompletes) {
  std::vector<float> values(100, 1.0f);
  (void)world.group().all_reduce_async(values);
  world.group().barrier();
  world.destroy();
  EXPECT_EQ(values[99], static_cast<float>(world.size()));
}

RANK_TEST(Lifecycle, EndOfTheWorldEndsItsGroups) {
  ProcessGroup whole = world.group();
  ProcessGroup group = world.new_group(all_ranks(world));
  expect_count_of_ranks(group);
  EXPECT_FALSE(world.is_destroyed());
  world.destroy();
  EXPECT_TRUE(world.is_destroyed());
  expect_ended(whole);
  expect_ended(group);
  expect_error(ErrorKind::usage, [&] { world.new_group({0}); }, {"destroyed"});
  world.destroy();  // twice is fine
}

RANK_TEST(Lifecycle, EndOfTheWorldWaitsForPendingWork) {
  ProcessGroup group = world.new_group(all_ranks(world));
  std::vector<std::int32_t> in_group(50, 1);
  std::vector<std::int32_t> in_world(50, 2);
  Work first = group.all_reduce_async(in_group);
  Work second = world.group().all_reduce_async(in_world);
  world.destroy();
  EXPECT_TRUE(first.is_completed());
  EXPECT_TRUE(second.is_completed());
  EXPECT_EQ(in_group[49], world.size());
  EXPECT_EQ(in_world[49], 2 * world.size());
}

RANK_TEST(Lifecycle, HandlesOutliveTheWorld) {
  ProcessGroup group;
  Work work;
  std::int32_t one = 1;
  {
    World moved = std::move(world);
    expect_error(ErrorKind::usage, [&] { (void)world.rank(); }, {"World is empty"});
    expect_error(ErrorKind::usage, [&] { world.group(); }, {"World is empty"});
    group = moved.new_group(all_ranks(moved));
    work = group.all_reduce_async(view_of(one));
  }
  EXPECT_TRUE(work.is_completed());
  EXPECT_EQ(work.error(), nullptr);
  EXPECT_EQ(one, group.size());
  expect_ended(group);
}

TEST(Lifecycle, WorldsOneAfterTheOther) {
  for (int i = 0; i < 5; ++i) {
    on_ranks([](World& world) {
      expect_count_of_ranks(world.group());
      ProcessGroup group = world.new_group({0});
      EXPECT_EQ(group.membership().uid, 1u);  // every world counts for itself
      if (group.is_member()) expect_count_of_ranks(group);
      world.destroy();
    });
  }
}

RANK_TEST(Lifecycle, BadListsAreRefused) {
  const int ranks = world.size();
  const std::vector<std::vector<int>> bad = {{}, {0, 0}, {0, ranks}, {-1}, {0, ranks - 1, 0}};
  for (const std::vector<int>& list : bad)
    expect_error(ErrorKind::usage, [&] { world.new_group(list); },
                 {"rank " + std::to_string(world.rank())});
  expect_count_of_ranks(world.group());
  // What was refused has not been counted.
  EXPECT_EQ(world.new_group({0}).membership().uid, 1u);
}

RANK_TEST(Lifecycle, DifferentListsAreRefused) {
  NEEDS_RANKS(3);
  const GroupOptions options{.timeout = 1s};
  const std::vector<int> list = world.rank() == 0 ? std::vector{0, 1} : std::vector{0, 1, 2};
  std::string text;
  try {
    world.new_group(list, options);
  } catch (const UsageError& error) {
    text = error.what();
  } catch (const TimeoutError& error) {
    text = error.what();
  }
  EXPECT_EQ(text.empty(), world.rank() > 2) << text;
  expect_count_of_ranks(world.group());
}

/// Makes a group that `absent` never joins; the error must be a timeout. Whether it names that
/// rank.
bool absent_member_is_named(World& world, int absent, Duration limit) {
  world.group().barrier();  // the others shall not be late
  if (world.rank() == absent) return true;
  std::string text;
  expect_error(ErrorKind::timeout, [&] {
    try {
      world.new_group(all_ranks(world), {.timeout = limit});
    } catch (const TimeoutError& error) {
      text = error.what();
      throw;
    }
  });
  return text.find("rank(s) " + std::to_string(absent)) != std::string::npos;
}

RANK_TEST(Lifecycle, MissingMembersAreNamed) {
  NEEDS_RANKS(3);
  // A machine that stands still for longer than the limit makes the other ranks late, too, and then
  // it is right to name them. So there are further attempts, with more time.
  std::int32_t named = 0;
  for (Duration limit = 1s; named == 0 && limit <= 8s; limit *= 2) {
    named = absent_member_is_named(world, world.size() - 1, limit) ? 1 : 0;
    world.group().all_reduce(view_of(named), ReduceOp::min);
  }
  EXPECT_EQ(named, 1);
}

}  // namespace
}  // namespace hymn::test
