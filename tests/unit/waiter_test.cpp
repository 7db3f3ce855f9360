// What a waiting thread does with its core, on a clock and with switches of the test's own.
#include "base/waiter.hpp"

#include <gtest/gtest.h>

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// A thread whose looks at the world are the test's. What it does takes time.
struct ToyThread {
  static void relax() { ++relaxed, time += 50ns; }
  static void yield() { ++yielded, time += yield_takes; }
  static void nap(long nanoseconds) { ++napped, time += Duration(nanoseconds); }
  static TimePoint now() { return time; }
  static long switches() { return ++counted, lost; }
  static CorePressure& pressure() { return core; }
  static YieldPrice& yield_price() { return price; }
  static CoreEscape& core_escape() { return escape; }
  static bool gives_turn(long) { return false; }

  static void reset() {
    relaxed = yielded = napped = counted = 0;
    lost = 1000;
    time = TimePoint{} + 1h;
    yield_takes = 1us;
    core = {};
    price = {};
    escape = {};
    escape.is_due(time);  // has just been tried
  }

  static inline int relaxed, yielded, napped, counted;
  static inline long lost;  ///< how often the kernel has taken the core away
  static inline TimePoint time;
  static inline Duration yield_takes;
  static inline CorePressure core;
  static inline YieldPrice price;
  static inline CoreEscape escape;
};
using ToyWaiter = BasicWaiter<ToyThread>;

class WaiterTest : public testing::Test {
 protected:
  WaiterTest() { ToyThread::reset(); }

  /// As many pauses, until it is sleepy at most; how many there were.
  static int pause(ToyWaiter& waiter, int most, Awaited where) {
    int turn = 0;
    for (; turn < most && !waiter.is_sleepy(); ++turn) waiter.pause([where] { return where; });
    return turn;
  }
  /// A wait that the kernel interrupts so often.
  static void wait_interrupted(Oversubscription& oversubscription, int times) {
    ToyWaiter waiter(oversubscription, true);
    pause(waiter, 800, Awaited::elsewhere);
    ToyThread::lost += times;
    pause(waiter, 1190, Awaited::elsewhere);
  }

  Oversubscription calm_{false};
};

TEST_F(WaiterTest, SpinsWhileThoseItWaitsForAreElsewhere) {
  for (const Awaited where : {Awaited::elsewhere, Awaited::somewhere}) {
    ToyWaiter waiter(calm_, true);
    EXPECT_EQ(pause(waiter, 2000, where), 2000);
    EXPECT_EQ(ToyThread::yielded, 0);
    EXPECT_FALSE(waiter.is_sleepy());
  }
}

TEST_F(WaiterTest, GivesTheCoreAwayToAPeerThatHasComeOntoIt) {
  ToyWaiter waiter(calm_, true);
  EXPECT_EQ(pause(waiter, 20, Awaited::here), 20);
  EXPECT_GE(ToyThread::yielded, 4);
  EXPECT_LT(ToyThread::relaxed, 20);
  // It sleeps when that has not helped for long.
  EXPECT_LT(pause(waiter, 1000, Awaited::here), 400);
  EXPECT_TRUE(waiter.is_sleepy());
}

TEST_F(WaiterTest, SleepsAtOnceWhereTheKernelMayWakeItElsewhere) {
  ToyThread::escape = {};
  ToyWaiter first(calm_, true);
  EXPECT_EQ(pause(first, 1000, Awaited::here), 16) << "as soon as it looks";
  EXPECT_EQ(ToyThread::yielded, 0);
  // That has not helped: not again soon.
  ToyWaiter next(calm_, true);
  EXPECT_EQ(pause(next, 100, Awaited::here), 100);
  EXPECT_EQ(ToyThread::yielded, 100);
  ToyThread::time += 2ms;
  ToyWaiter later(calm_, true);
  EXPECT_EQ(pause(later, 100, Awaited::here), 1);
}

TEST_F(WaiterTest, WhoWouldNotBeWokenOnlyGivesTheCoreAway) {
  ToyThread::escape = {};
  ToyWaiter waiter(calm_, false);
  EXPECT_EQ(pause(waiter, 100, Awaited::here), 100);
  EXPECT_GT(ToyThread::yielded, 0);
}

TEST_F(WaiterTest, TheNextWaitLooksFirst) {
  ToyWaiter first(calm_, true);
  pause(first, 20, Awaited::here);
  ASSERT_TRUE(calm_.is_noticed());
  ToyThread::reset();
  ToyWaiter next(calm_, true);
  pause(next, 5, Awaited::here);
  EXPECT_EQ(ToyThread::yielded, 5);
  EXPECT_EQ(ToyThread::relaxed, 0);
}

TEST_F(WaiterTest, APeerThatHasGoneElsewhereIsForgotten) {
  calm_.notice(true);
  ToyWaiter waiter(calm_, true);
  pause(waiter, 100, Awaited::elsewhere);
  EXPECT_EQ(ToyThread::yielded, 0);
  EXPECT_FALSE(calm_.is_noticed());
}

TEST_F(WaiterTest, WhoCannotTellWhereItsPeersAreDoesAsOthersFoundRight) {
  ToyWaiter first(calm_);
  pause(first, 100, Awaited::somewhere);
  EXPECT_EQ(ToyThread::yielded, 0);
  calm_.notice(true);
  ToyWaiter next(calm_);
  pause(next, 100, Awaited::somewhere);
  EXPECT_EQ(ToyThread::yielded, 100);
  EXPECT_TRUE(calm_.is_noticed());
}

TEST_F(WaiterTest, KeepsTheCoreAgainWhenThePeerHasLeftIt) {
  ToyWaiter waiter(calm_, true);
  pause(waiter, 20, Awaited::here);
  const int yielded = ToyThread::yielded;
  pause(waiter, 65 * 10, Awaited::elsewhere);
  EXPECT_EQ(ToyThread::yielded, yielded + 10);
}

TEST_F(WaiterTest, SleepsEarlyWhereOthersWantTheCore) {
  wait_interrupted(calm_, 2);
  ToyWaiter waiter(calm_, true);
  const TimePoint began = ToyThread::now();
  EXPECT_LT(pause(waiter, 5000, Awaited::elsewhere), 2000);
  EXPECT_TRUE(waiter.is_sleepy());
  EXPECT_GE(ToyThread::now() - began, 30us) << "what is on its way must not find it asleep";
  EXPECT_LT(ToyThread::now() - began, 60us);
  EXPECT_EQ(ToyThread::yielded, 0) << "that would lose a turn among those others";
}

TEST_F(WaiterTest, SleepsBesideAPeerWhereGivingTheCoreAwayCostsATurn) {
  ToyThread::yield_takes = 3ms;  // somebody computes there
  ToyWaiter first(calm_, true);
  EXPECT_EQ(pause(first, 1000, Awaited::here), 17);
  EXPECT_EQ(ToyThread::yielded, 1);
  EXPECT_TRUE(first.is_sleepy());
  ToyWaiter next(calm_, true);
  EXPECT_EQ(pause(next, 1000, Awaited::here), 1) << "at once";
  EXPECT_EQ(ToyThread::yielded, 1);
  // Now and then it tries again; a peer may compute meanwhile.
  ToyThread::yield_takes = 900us;
  ToyThread::time += 30ms;
  ToyThread::escape.is_due(ToyThread::time);
  ToyWaiter later(calm_, true);
  EXPECT_EQ(pause(later, 100, Awaited::here), 100);
  EXPECT_EQ(ToyThread::yielded, 101);
}

TEST_F(WaiterTest, OneInterruptionSaysNothing) {
  wait_interrupted(calm_, 1);
  ToyWaiter waiter(calm_, true);
  EXPECT_EQ(pause(waiter, 2000, Awaited::elsewhere), 2000);
}

TEST_F(WaiterTest, SpinsAgainWhenOthersHaveGone) {
  wait_interrupted(calm_, 2);
  ToyThread::time += CorePressure::memory;
  ToyWaiter waiter(calm_, true);
  EXPECT_EQ(pause(waiter, 2000, Awaited::elsewhere), 2000);
}

TEST_F(WaiterTest, WhoWouldNotBeWokenDoesNotSleepEarly) {
  wait_interrupted(calm_, 2);
  ToyWaiter waiter(calm_, false);
  EXPECT_EQ(pause(waiter, 2000, Awaited::elsewhere), 2000);
  EXPECT_FALSE(waiter.is_sleepy());
}

TEST_F(WaiterTest, AShortWaitAsksNobody) {
  ToyWaiter waiter(calm_, true);
  int asked = 0;
  for (int turn = 0; turn < 15; ++turn) waiter.pause([&asked] { return ++asked, Awaited::here; });
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(ToyThread::counted, 0);
  EXPECT_EQ(ToyThread::relaxed, 0);
}

TEST_F(WaiterTest, RanksKnownToShareCoresDoNotSpin) {
  Oversubscription counted(true);
  ToyWaiter waiter(counted, true);
  pause(waiter, 10, Awaited::somewhere);
  EXPECT_EQ(ToyThread::yielded, 10);
  EXPECT_EQ(ToyThread::relaxed, 0);
}

TEST_F(WaiterTest, RestsGrowWhereAWakeUpCanBeMissed) {
  ToyWaiter waiter(calm_, true);
  long last = 0;
  for (const long rest : {1'000'000, 2'000'000, 4'000'000, 8'000'000, 10'000'000, 10'000'000})
    EXPECT_EQ(last = waiter.next_park(), rest);
  Oversubscription counted(true);
  EXPECT_EQ(ToyWaiter(counted, true).next_park(), last);
}

TEST(CorePressureTest, ForgetsWhatItCannotDate) {
  CorePressure pressure;
  TimePoint now = TimePoint{} + 1h;
  pressure.count(50, now);
  EXPECT_FALSE(pressure.is_high(now)) << "since the thread began";
  now += 2 * CorePressure::memory;
  pressure.count(60, now);
  EXPECT_FALSE(pressure.is_high(now)) << "some time in the last 200 ms";
  for (const long switches : {61, 62}) {
    EXPECT_FALSE(pressure.is_high(now));
    now += CorePressure::memory / 4;
    pressure.count(switches, now);
  }
  for (const bool high : {true, true, false}) {
    EXPECT_EQ(pressure.is_high(now), high);
    now += CorePressure::memory / 2 + 1ns;
    pressure.count(62, now);
  }
}

}  // namespace
}  // namespace hymn::test
