// HYMN_ON_FAILURE and HYMN_BLOCKING_WAIT: what is done of its own accord about what has failed.
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/support/variable.hpp"

#include <numeric>

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Rank 0 starts what no other rank takes part in, and does not look at it.
Work start_alone(World& world, ProcessGroup& group) {
  Work work;
  if (world.rank() == 0) work = group.barrier_async({.timeout = 100ms});
  return work;
}

TEST(Policy, ReportLeavesWhatNobodyWaitsFor) {
  const Variable policy("HYMN_ON_FAILURE", "report");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "unattended");
    Work work = start_alone(world, group);
    if (world.rank() == 0) {
      EXPECT_FALSE(is_aborted_within(group, 1s));
      EXPECT_FALSE(work.is_completed());
      const Error error = failure_of([&] { work.wait(); }, {"barrier #1", "unattended"});
      EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    }
    // The wait has found it; now all hear of it.
    EXPECT_TRUE(is_aborted_within(group, at_once));
    expect_world_works(world);
  });
}

TEST(Policy, CleanUpGivesTheGroupUpOnAllRanks) {
  const Variable policy("HYMN_ON_FAILURE", "clean_up");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "unattended");
    Work work = start_alone(world, group);
    EXPECT_TRUE(is_aborted_within(group, at_once));
    if (world.rank() == 0) failure_of([&] { work.wait(); }, {"barrier #1", "unattended"});
    failure_of([&] { group.barrier(); }, {"rank 0", "barrier #1", "nobody waits for it"});
    expect_world_works(world);
  });
}

TEST(Policy, CleanUpNamesWhoHasNotEnteredIt) {
  const Variable policy("HYMN_ON_FAILURE", "clean_up");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "unattended");
    Work work = start_alone(world, group);
    EXPECT_TRUE(is_aborted_within(group, at_once));
    const Error error = failure_of([&] { group.barrier(); }, {"missing: rank 1", "not entered it"});
    std::vector<int> others(static_cast<std::size_t>(world.size() - 1));
    std::iota(others.begin(), others.end(), 1);
    EXPECT_EQ(error.context().missing, others) << error.what();
    expect_world_works(world);
  });
}

// Nobody moves it on.
TEST(Policy, CleanUpLeavesWhatAllHaveStarted) {
  const Variable policy("HYMN_ON_FAILURE", "clean_up");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "unattended");
    std::vector<std::int32_t> values(1'000'000, 1);
    const auto start = [&](Timeout limit) {
      return group.all_reduce_async(values, {}, {.timeout = limit});
    };
    Work work;
    if (world.rank() == 0) {
      await_tokens_of_all_others(world);  // who had not started it by the limit would be missed
      work = start(500ms);
      EXPECT_FALSE(is_aborted_within(group, 2s));
    } else {
      work = start(50s);
      send_token(world, 0);
      std::this_thread::sleep_for(1500ms);
    }
    // The limit has passed, but it is for who waits to say so.
    try {
      work.wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), world.rank() == 0 ? ErrorKind::timeout : ErrorKind::aborted);
    }
    expect_world_works(world);
  });
}

// Rank 0 computes past the limit; all others are through.
TEST(Policy, CleanUpLeavesWhatAllHaveEntered) {
  const Variable policy("HYMN_ON_FAILURE", "clean_up");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "unattended");
    int value = 1;
    const auto start = [&](Timeout limit) {
      return group.all_reduce_async(view_of(value), {}, {.timeout = limit});
    };
    if (world.rank() == 0) {
      await_tokens_of_all_others(world);  // who had not entered it by the limit would be missed
      Work work = start(300ms);
      EXPECT_FALSE(is_aborted_within(group, 1500ms));
      work.wait(at_once);  // one that has entered it may have no core to do its part just now
    } else {
      Work work = start(50s);
      send_token(world, 0);
      work.wait();
    }
    EXPECT_EQ(value, world.size());
    expect_world_works(world);
  });
}

TEST(Policy, CleanUpLeavesWhatIsInTime) {
  const Variable policy("HYMN_ON_FAILURE", "clean_up");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "slow");
    Work work;
    if (world.rank() == 0) work = group.barrier_async();
    EXPECT_FALSE(is_aborted_within(group, 700ms));
    if (world.rank() != 0) work = group.barrier_async();
    work.wait();
  });
}

TEST(BlockingWait, test_nccl_blocking_wait_with_barrier) {
  const Variable blocking("HYMN_BLOCKING_WAIT", "1");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "impatient");
    if (world.rank() == 0) {
      Work work = group.barrier_async();
      Work after = group.barrier_async();
      const Error error = failure_of([&] { work.wait(100ms); },
                                     {"barrier #1", "impatient", "the group is given up"});
      EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
      EXPECT_TRUE(work.is_completed());
      EXPECT_NE(work.error(), nullptr);
      expect_error(ErrorKind::timeout, [&] { work.wait(); }, {"barrier #1"});
      expect_error(ErrorKind::aborted, [&] { after.wait(); }, {"barrier #1"});
    }
    EXPECT_TRUE(is_aborted_within(group, at_once));
    failure_of([&] { group.barrier(); }, {"rank 0", "barrier #1"});
    expect_world_works(world);
  });
}

// Rank 0 alone makes a call that the others do not make, and gives it up at once.
TEST(BlockingWait, test_nccl_timeout) {
  const Variable blocking("HYMN_BLOCKING_WAIT", "1");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "failing");
    std::vector<float> values(10, 1.0f);
    group.all_reduce_async(values).wait(at_once);
    world.group().barrier();  // or one that is late is still in it when rank 0 gives the group up
    if (world.rank() == 0)
      expect_error(ErrorKind::timeout, [&] { group.all_reduce_async(values).wait(100ms); },
                   {"timeout"});
    world.group().barrier();
  });
}

// All but rank 0 make a call, and hear why when they make another.
TEST(BlockingWait, test_nccl_propagate_error_reason) {
  const Variable blocking("HYMN_BLOCKING_WAIT", "1");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "failing");
    group.barrier_async().wait(at_once);
    world.group().barrier();  // or one that is late is still in it when the group is given up
    if (world.rank() != 0) {
      float value = 1;
      failure_of([&] { group.all_reduce_async(view_of(value)).wait(300ms); }, {"all_reduce #2"});
      expect_error(ErrorKind::aborted, [&] { group.all_reduce_async(view_of(value)).wait(); },
                   {"aborted", "all_reduce #2"});
    }
    world.group().barrier();
  });
}

TEST(BlockingWait, LeavesFailuresToWhoWaits) {
  const Variable blocking("HYMN_BLOCKING_WAIT", "1");
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world, "unattended");
    Work work = start_alone(world, group);
    if (world.rank() == 0) {
      EXPECT_FALSE(is_aborted_within(group, 700ms));
      failure_of([&] { work.wait(); }, {"barrier #1"});
    }
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
