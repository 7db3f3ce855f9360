// Deadlines, to the nanosecond: on a clock that the test sets. Nothing sleeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/unit/fake_world.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// How long the TimeoutError of this call says that was waited; fails when there is none.
Duration waited_by(const std::function<void()>& call, const std::string& words = "") {
  try {
    call();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
    return error.waited();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return -1s;
  }
  ADD_FAILURE() << "nothing is thrown";
  return -1s;
}

/// A wait looks at the clock now and then, which moves it by `look` each time.
void expect_waited(Duration waited, Duration limit, Duration look) {
  EXPECT_GE(waited, limit);
  EXPECT_LE(waited, limit + 2 * look);
}

/// The work, just started by one rank alone, must end exactly after `limit`.
void expect_limit(FakeClock& clock, Work work, Duration limit) {
  clock.advance(limit - 1ns);
  EXPECT_FALSE(work.test()) << "too early";
  EXPECT_FALSE(work.is_completed());
  clock.advance(1ns);
  EXPECT_TRUE(work.test()) << "too late";
  EXPECT_EQ(waited_by([&] { work.wait(); }), limit);
}

TEST(Deadlines, FireExactly) {
  for (const Duration limit : {Duration(1ns), Duration(1us), Duration(5s), Duration(24h * 1000)}) {
    FakePair pair;
    expect_limit(pair.clock, pair.group(0).barrier_async({.timeout = limit}), limit);
  }
}

/// Rank 1 comes, and the limit passes, after rank 0 has looked in vain and before it is told the
/// time.
void let_the_other_come_late(FakePair& pair, long looks, Work& other) {
  pair.clock.let_happen(looks, [&] {
    std::thread([&] { other = pair.group(1).barrier_async({.timeout = 1h}); }).join();
    pair.clock.advance(2min);
  });
}

TEST(Deadlines, DoNotFailWhatHasCompletedMeanwhile) {
  // At whichever look at the clock it happens.
  for (const long looks : {0, 1, 2, 3}) {
    SCOPED_TRACE(looks);
    FakePair pair;
    Work other;
    Work work = pair.group(0).barrier_async({.timeout = 1min});
    let_the_other_come_late(pair, looks, other);
    for (int i = 0; i < 5 && !work.is_completed(); ++i) EXPECT_NO_THROW(work.test());
    EXPECT_NO_THROW(work.wait());
    pair.clock.let_happen(0, [] {});
    other.wait();
  }
}

TEST(Deadlines, DoNotFailABlockingCallThatHasCompletedMeanwhile) {
  for (const long looks : {1, 2, 3}) {
    SCOPED_TRACE(looks);
    FakePair pair;
    Work other;
    let_the_other_come_late(pair, looks, other);
    EXPECT_NO_THROW(pair.group(0).barrier({.timeout = 1min}));
    other.wait();
  }
}

TEST(Deadlines, OfZeroHaveExpiredAtOnce) {
  for (const Duration limit : {Duration(0s), Duration(-5s)}) {
    FakePair pair;
    Work work = pair.group(0).barrier_async({.timeout = limit});
    EXPECT_TRUE(work.test());
    EXPECT_EQ(waited_by([&] { work.wait(); }), 0s);
  }
}

TEST(Deadlines, OfTheCallBeforeTheGroupsBeforeTheWorldsBeforeTheEnvironments) {
  Config config;
  config.timeout = 40s;
  for (const Timeout of_world : {Timeout(), Timeout(30s)}) {
    const Timeout world_limit = of_world.or_else(40s);
    for (const Timeout of_group : {Timeout(), Timeout(20s), Timeout(50s)}) {
      for (const Timeout of_call : {Timeout(), Timeout(10s), Timeout(60s)}) {
        FakePair pair(config, {.timeout = of_world});
        EXPECT_EQ(pair.group(0).timeout(), world_limit);
        auto groups = pair.new_groups({.timeout = of_group});
        EXPECT_EQ(groups[0].timeout(), of_group.or_else(world_limit));
        const Duration limit = of_call.or_else(of_group).or_else(world_limit).duration();
        expect_limit(pair.clock, groups[0].barrier_async({.timeout = of_call}), limit);
        // The other groups of the world have not noticed.
        Work elsewhere = pair.group(0).barrier_async();
        (void)pair.group(1).barrier_async();
        elsewhere.wait();
      }
    }
  }
}

TEST(Deadlines, NoneWinsLikeAnyOther) {
  Config config;
  config.timeout = 1s;
  const std::vector<std::array<Timeout, 3>> worlds_groups_calls = {
      {Timeout::none(), Timeout(), Timeout()},
      {Timeout(2s), Timeout::none(), Timeout()},
      {Timeout(2s), Timeout(3s), Timeout::none()}};
  for (const auto& [of_world, of_group, of_call] : worlds_groups_calls) {
    FakePair pair(config, {.timeout = of_world});
    auto groups = pair.new_groups({.timeout = of_group});
    Work work = groups[0].barrier_async({.timeout = of_call});
    pair.clock.advance(24h * 365 * 200);
    EXPECT_FALSE(work.test());
    Work other = groups[1].barrier_async({.timeout = Timeout::none()});
    while (!(work.test() && other.test())) std::this_thread::yield();
    EXPECT_EQ(work.error(), nullptr);
  }
  FakePair pair(config, {.timeout = Timeout::none()});
  expect_limit(pair.clock, pair.group(0).barrier_async({.timeout = 2s}), 2s);
}

TEST(Deadlines, ChangedLaterConcernWhatStartsLater) {
  FakePair pair(Config{}, {.timeout = 10s});
  ProcessGroup& group = pair.group(0);
  float value = 0;
  Work before = group.irecv(view_of(value), 1, 1);
  group.set_timeout(20s);
  Work after = group.irecv(view_of(value), 1, 2);
  pair.clock.advance(10s);
  EXPECT_TRUE(before.test());
  EXPECT_FALSE(after.test());
  pair.clock.advance(10s);
  EXPECT_TRUE(after.test());
  EXPECT_EQ(waited_by([&] { before.wait(); }, "limit 10.000 s"), 10s);
  EXPECT_EQ(waited_by([&] { after.wait(); }, "limit 20.000 s"), 20s);
}

TEST(Deadlines, DoNotMatterToWhatCanComplete) {
  FakePair pair;
  Work first = pair.group(0).barrier_async({.timeout = 1s});
  Work second = pair.group(1).barrier_async({.timeout = 1s});
  pair.clock.advance(1h);  // nobody has looked; now both ranks are there
  EXPECT_TRUE(second.test());
  EXPECT_TRUE(first.test());
  EXPECT_EQ(first.error(), nullptr);
  EXPECT_EQ(second.error(), nullptr);
}

TEST(Deadlines, OfBlockingCalls) {
  FakePair pair;
  auto groups = pair.new_groups({.description = "layers"});
  float value = 0;
  pair.clock.set_step(1s);
  EXPECT_EQ(waited_by([&] { groups[0].all_reduce(view_of(value), {}, {.timeout = 7s}); },
                      "all_reduce #1 of group 'layers#1' has not completed on rank 0 after 7.000 s "
                      "(limit 7.000 s)"),
            7s);
  EXPECT_THROW(groups[0].barrier(), AbortedError);
  // A receive that nobody has answered concerns nobody else.
  EXPECT_EQ(
      waited_by([&] { pair.group(0).recv(view_of(value), 1, 0, {.timeout = 3s}); }, "recv #1"), 3s);
  pair.clock.set_step(0s);
  Work work = pair.group(0).barrier_async();
  (void)pair.group(1).barrier_async();
  EXPECT_NO_THROW(work.wait());
}

TEST(Deadlines, OfAWaitWithoutALimitOfItsOwn) {
  FakePair pair;
  Work work = pair.group(0).barrier_async({.timeout = 5s});
  pair.clock.set_step(1s);
  expect_waited(waited_by([&] { work.wait(); }, "the group is given up"), 5s, 1s);
  EXPECT_TRUE(work.is_completed());
  EXPECT_THROW(pair.group(0).barrier(), AbortedError);
}

TEST(Deadlines, OfAWaitLeaveTheWorkInFlight) {
  FakePair pair;
  float values[2] = {1, 2};
  Work work = pair.group(0).all_reduce_async(view_of(values[0]), {}, {.timeout = 10s});
  pair.clock.set_step(1s);
  expect_waited(waited_by([&] { work.wait(3s); }, "still in flight"), 3s, 1s);
  expect_waited(waited_by([&] { work.wait(0s); }, "still in flight"), 0s, 1s);
  // Longer than the operation's own: who waits with a limit of their own waits as long as they
  // said.
  expect_waited(waited_by([&] { work.wait(20s); }, "still in flight"), 20s, 1s);
  EXPECT_FALSE(work.is_completed());
  EXPECT_EQ(work.error(), nullptr);
  pair.clock.set_step(0s);
  std::thread other([&] { pair.group(1).all_reduce(view_of(values[1])); });
  EXPECT_NO_THROW(work.wait(1h));
  other.join();
  EXPECT_EQ(values[0], 3.0f);
  EXPECT_EQ(values[1], 3.0f);
}

TEST(Deadlines, OfTheOperationHoldAgainAfterSuchAWait) {
  FakePair pair;
  Work work = pair.group(0).barrier_async({.timeout = 10s});
  pair.clock.set_step(1s);
  expect_waited(waited_by([&] { work.wait(20s); }), 20s, 1s);
  EXPECT_TRUE(work.test());
  EXPECT_GE(waited_by([&] { work.wait(); }, "limit 10.000 s"), 10s);
}

TEST(Deadlines, WorksBehindAFailedOneFailWithItsReason) {
  FakePair pair;
  Work first = pair.group(0).barrier_async({.timeout = 1s});
  Work second = pair.group(0).barrier_async({.timeout = 100s});
  pair.clock.advance(1s);
  EXPECT_TRUE(first.test());
  EXPECT_TRUE(second.test());
  EXPECT_EQ(waited_by([&] { first.wait(); }), 1s);
  try {
    second.wait();
    FAIL() << "nothing is thrown";
  } catch (const AbortedError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("barrier #1 of group 'default_pg' has not completed on rank 0 after 1.000 s"));
  }
}

TEST(Deadlines, OfAGroupHoldWhenItIsDestroyed) {
  FakePair pair;
  auto groups = pair.new_groups({.timeout = 4s});
  float value = 7;
  Work work = groups[0].irecv(view_of(value), 1);
  pair.clock.set_step(1s);
  groups[0].destroy();
  EXPECT_TRUE(work.is_completed());
  EXPECT_THROW(work.wait(), AbortedError);
  EXPECT_EQ(value, 7);
}

TEST(Deadlines, OfMakingAGroup) {
  FakePair pair;
  // The clock moves whenever it is read, also between the reading that the limit counts from and
  // that from which the wait is told.
  pair.clock.set_step(1s);
  EXPECT_GE(waited_by([&] { pair.world(0).new_group({0, 1}, {.timeout = 6s}); },
                      "making group 1 of ranks [0, 1]"),
            5s);
  pair.clock.set_step(0s);
  // Rank 1 comes late, and is told at once.
  EXPECT_EQ(waited_by([&] { pair.world(1).new_group({0, 1}, {.timeout = 6s}); }, "rank(s) 1"), 0s);
  // Both have counted the call: they are still in step.
  auto groups = pair.new_groups();
  EXPECT_EQ(groups[0].membership().uid, groups[1].membership().uid);
}

}  // namespace
}  // namespace hymn::test
