// run_ranks: ranks that throw, skip, start threads, or call different things.
#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "hymn/hymn.h"
#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

void gather_three_by_three(World& world) {
  const std::vector<float> in(9, static_cast<float>(world.rank()));
  std::vector<float> out(9 * ranks_as_size(world));
  world.group().all_gather(in, out);
  EXPECT_EQ(out.back(), static_cast<float>(world.size() - 1));
}

/// What run_ranks throws when `throws(rank)` ranks fail between two collectives.
std::vector<RankFailure> failures_when(bool (*throws)(int rank)) {
  std::barrier between(4);
  try {
    run_ranks(4, [&, throws](World& world) {
      gather_three_by_three(world);
      between
          .arrive_and_wait();  // or one that is late is released from the first by who has thrown
      if (throws(world.rank()))
        throw std::runtime_error("no luck on " + std::to_string(world.rank()));
      gather_three_by_three(world);
    });
  } catch (const RanksFailed& failed) {
    const std::string text = failed.what();
    for (const RankFailure& failure : failed.failures())
      EXPECT_NE(text.find("no luck on " + std::to_string(failure.rank)), std::string::npos) << text;
    EXPECT_EQ(failed.kind(), ErrorKind::peer);
    try {
      failed.rethrow_first();
    } catch (const std::runtime_error& first) {
      EXPECT_EQ(first.what(), "no luck on " + std::to_string(failed.failures().at(0).rank));
    }
    return failed.failures();
  }
  return {};
}

TEST(RunRanks, test_collective_error_on_rank_zero) {
  const auto failures = failures_when([](int rank) { return rank == 0; });
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].rank, 0);
  EXPECT_EQ(failures[0].text, "no luck on 0");
  EXPECT_THROW(std::rethrow_exception(failures[0].error), std::runtime_error);
}

TEST(RunRanks, test_collective_error_on_rank_non_zero) {
  const auto failures = failures_when([](int rank) { return rank == 1; });
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].rank, 1);
}

TEST(RunRanks, test_collective_error_on_rank_non_zero_all) {
  const auto failures = failures_when([](int rank) { return rank > 0; });
  ASSERT_EQ(failures.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failures[as_size(i)].rank, i + 1);
}

// Also to who is told by the end of its world.
TEST(RunRanks, WhatARankThrowsIsToldToTheOthers) {
  std::atomic<int> told = 0;
  std::barrier between(3);  // as in failures_when()
  EXPECT_THROW(run_ranks(3,
                         [&](World& world) {
                           gather_three_by_three(world);
                           between.arrive_and_wait();
                           if (world.rank() == 1) throw std::runtime_error("no luck on 1");
                           try {
                             gather_three_by_three(world);
                           } catch (const Error& error) {
                             EXPECT_THAT(error.what(), testing::HasSubstr("no luck on 1"));
                             ++told;
                             throw;
                           }
                         }),
               RanksFailed);
  EXPECT_EQ(told, 2);
}

TEST(RunRanks, ReleasedRanksSeeAnAbortedError) {
  std::atomic<int> released = 0;
  std::barrier all_there(4);  // or the making of a world is what one is released from
  try {
    run_ranks(4, [&](World& world) {
      all_there.arrive_and_wait();
      if (world.rank() == 2) throw std::runtime_error("gone");
      try {
        gather_three_by_three(world);
      } catch (const AbortedError& error) {
        EXPECT_NE(std::string(error.what()).find("2"), std::string::npos) << error.what();
        ++released;
        throw;
      }
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const RanksFailed& failed) {
    EXPECT_EQ(failed.failures().size(), 1u);
  }
  EXPECT_EQ(released, 3);
}

TEST(RunRanks, EveryWaitIsReleased) {
  // In a receive, in a barrier of a sub-group, in a wait for asynchronous work, in new_group.
  EXPECT_THROW(run_ranks(5,
                         [](World& world) {
                           ProcessGroup group = world.new_group({0, 1});
                           std::int32_t value = 0;
                           switch (world.rank()) {
                             case 0:
                               world.group().recv(view_of(value), 4);
                               break;
                             case 1:
                               group.barrier();
                               break;
                             case 2:
                               world.group().barrier_async().wait();
                               break;
                             case 3:
                               world.new_group({3, 4});
                               break;
                             default:
                               std::this_thread::sleep_for(20ms);
                               throw std::runtime_error("late");
                           }
                           ADD_FAILURE() << "rank " << world.rank() << " was not released";
                         }),
               RanksFailed);
}

TEST(RunRanks, ThrowsWhatIsNoException) {
  EXPECT_THROW(run_ranks(2,
                         [](World& world) {
                           if (world.rank() == 1) throw 42;
                         }),
               RanksFailed);
}

TEST(RunRanks, test_skip) {
  try {
    run_ranks(4, [](World& world) {
      if (world.rank() == 3) throw RankSkipped("nothing to do");
    });
    ADD_FAILURE() << "the skip was lost";
  } catch (const RankSkipped& skipped) {
    EXPECT_STREQ(skipped.what(), "nothing to do");
  }
}

TEST(RunRanks, FailureWinsOverSkip) {
  std::barrier all_there(3);  // or rank 2 is released before it can fail
  EXPECT_THROW(run_ranks(3,
                         [&](World& world) {
                           all_there.arrive_and_wait();
                           if (world.rank() == 0) throw RankSkipped("nothing to do");
                           if (world.rank() == 2) throw std::runtime_error("broken");
                         }),
               RanksFailed);
}

TEST(RunRanks, NumberOfRanksMustBePositive) {
  for (const int ranks : {0, -3})
    expect_error(ErrorKind::usage, [&] { run_ranks(ranks, [](World&) {}); },
                 {std::to_string(ranks)});
}

TEST(RunRanks, BadOptionsReachTheCaller) {
  EXPECT_THROW(run_ranks(2, [](World&) {}, {.path = "no_such_path"}), Error);
}

TEST(RunRanks, SixteenRanks) {
  std::atomic<int> ran = 0;
  run_ranks(16, [&](World& world) {
    for (int i = 0; i < 20; ++i) gather_three_by_three(world);
    std::int64_t sum = world.rank();
    world.group().all_reduce(view_of(sum));
    EXPECT_EQ(sum, 120);
    ++ran;
  });
  EXPECT_EQ(ran, 16);
}

TEST(RunRanks, WorldsInsideWorlds) {
  std::atomic<int> ran = 0;
  run_ranks(2, [&](World& outer) {
    run_ranks(3, [&](World& inner) {
      gather_three_by_three(inner);
      ++ran;
    });
    gather_three_by_three(outer);
  });
  EXPECT_EQ(ran, 6);
}

TEST(RunRanks, GroupsMadeAndUsedByThreadsOfTheRanks) {
  run_ranks(4, [](World& world) {
    std::thread([&] {
      ProcessGroup group = world.new_group({1, 3});
      if (!group.is_member()) return;
      std::int32_t sum = world.rank();
      group.all_reduce(view_of(sum));
      EXPECT_EQ(sum, 4);
    }).join();
    gather_three_by_three(world);
  });
}

TEST(RunRanks, DifferentCallsAreToldApart) {
  // Ranks that see each other's memory also see each other's calls: what does not fit together is
  // an error on every rank that meets it, and no memory is touched.
  struct Case {
    std::function<void(ProcessGroup&, int rank)> call;
    std::string word;
  };
  const std::vector<Case> cases = {{[](ProcessGroup& g, int rank) {
                                      Buffer b(DataType::int32, rank == 0 ? 4 : 5);
                                      g.all_reduce(b);
                                    },
                                    "count"},
                                   {[](ProcessGroup& g, int rank) {
                                      Buffer b(rank == 0 ? DataType::int32 : DataType::float32, 4);
                                      g.broadcast(b, 0);
                                    },
                                    "dtype"},
                                   {[](ProcessGroup& g, int rank) {
                                      Buffer b(DataType::int32, 4);
                                      g.broadcast(b, rank == 0 ? 0 : 1);
                                    },
                                    "root"},
                                   {[](ProcessGroup& g, int rank) {
                                      Buffer b(DataType::int32, 4);
                                      g.all_reduce(b, rank == 0 ? ReduceOp::sum : ReduceOp::max);
                                    },
                                    "reduction"},
                                   {[](ProcessGroup& g, int rank) {
                                      Buffer b(DataType::int32, 4);
                                      if (rank == 0)
                                        g.all_reduce(b);
                                      else
                                        g.broadcast(b, 0);
                                    },
                                    "operation"}};
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.word);
    run_ranks(2,
              [&](World& world) {
                const std::string text = error_text([&] { bad.call(world.group(), world.rank()); });
                EXPECT_NE(text.find(bad.word), std::string::npos) << text;
              },
              {.path = "threads"});
  }
}

// --- The world of a callback

/// Twice its rank, and the sum of that of all: 12 of 4 ranks. It is given no world.
int backward(int result) {
  World& world = World::current();
  EXPECT_EQ(2 * world.rank(), result);
  world.group().all_reduce(view_of(result));
  return result;
}

TEST(RunRanks, test_bwd_sees_fwd_pg) {
  run_ranks(4, [](World& world) {
    EXPECT_EQ(&World::current(), &world);
    EXPECT_EQ(backward(2 * world.rank()), 12);
    // A hook, and what is chained to a work, run on the rank's thread, too.
    std::vector<int> seen;
    ProcessGroup group = fresh_group(world);
    group.on_completion(
        [&seen](const CompletionInfo&) { seen.push_back(World::current().rank()); });
    int value = 1;
    group.all_reduce(view_of(value));
    Work work = group.all_reduce_async(view_of(value));
    (void)work.then([&seen](const auto&) { seen.push_back(World::current().rank()); });
    work.wait();
    group.wait_for_pending_works();
    EXPECT_EQ(seen, std::vector(3, world.rank()));
    world.group().barrier();
  });
}

// Rank 0's all_reduce cannot be over before its function has ended: its world's end completes it.
TEST(RunRanks, HooksAtTheEndOfAWorldSeeIt) {
  std::array<int, 2> seen{-1, -1};
  std::array<std::int32_t, 2> values{1, 2};
  std::promise<void> started;
  run_ranks(2, [&](World& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    if (me == 1) started.get_future().wait();
    ProcessGroup& group = world.group();
    group.on_completion([&seen, me](const CompletionInfo&) { seen[me] = World::current().rank(); });
    (void)group.all_reduce_async(view_of(values[me]));
    if (me == 0) started.set_value();
  });
  EXPECT_EQ(seen, (std::array{0, 1}));
  EXPECT_EQ(values, (std::array<std::int32_t, 2>{3, 3}));
}

TEST(RunRanks, WorldsThatCHasNotMadeHaveNoHandleThere) {
  run_ranks(1, [](World&) {
    hymnWorld_t handle = nullptr;
    EXPECT_EQ(hymnWorldCurrent(&handle), hymnUsageError);
    EXPECT_THAT(hymnGetLastError(), ::testing::HasSubstr("hymn::World::current()"));
    EXPECT_EQ(handle, nullptr);
  });
}

TEST(RunRanks, OnlyThreadsOfRanksHaveAWorldOfTheirOwn) {
  const auto ask = [] { (void)World::current(); };
  expect_error(ErrorKind::usage, ask, {"this thread is no rank's", "hand the World on"});
  run_ranks(2, [&](World& world) {
    std::thread([&] { expect_error(ErrorKind::usage, ask, {"this thread is no rank's"}); }).join();
    world.group().barrier();
  });
  expect_error(ErrorKind::usage, ask, {"this thread is no rank's"});
}

}  // namespace
}  // namespace hymn::test
