// The deterministic world itself: the same seed the same steps, time that passes at once, threads
// and locks of the program's own, what goes wrong on purpose, and what is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <ctime>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <set>
#include <shared_mutex>
#include <thread>

#include "tests/simulation/simulations.hpp"

namespace hymn::test {
namespace {

/// Which rank came first, and second.
std::string order_of(const SimulationOptions& options) {
  std::string order;
  const SimulationResult result = simulate(options, [&](World& world) {
    world.group().barrier();
    order += std::to_string(world.rank());
  });
  EXPECT_TRUE(result.ok()) << result.text;
  return order;
}

TEST(Simulation, OneSeedGivesTheSameStepsAgain) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::random, SchedulePolicy::round_robin, SchedulePolicy::priorities}) {
    SimulationOptions options = ranks(4, 7);
    options.policy = policy;
    const SimulationResult first = simulate(options, sum_once);
    const SimulationResult second = simulate(options, sum_once);
    EXPECT_TRUE(first.ok()) << first.text;
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.time, second.time);
    EXPECT_EQ(first.changes, second.changes);
    EXPECT_EQ(first.lines, second.lines);
  }
}

TEST(Simulation, SeedsDiffer) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 60; ++seed) orders.insert(order_of(ranks(3, seed)));
  EXPECT_EQ(orders.size(), 6u);  // all that there are
}

TEST(Simulation, AScheduleThatWasRecordedIsPlayedAgain) {
  SimulationOptions options = ranks(3, 11);
  const SimulationResult recorded = simulate(options, sum_once);
  options.seed = 12;
  options.replay = recorded.changes;
  const SimulationResult played = simulate(options, sum_once);
  EXPECT_EQ(played.steps, recorded.steps);
  EXPECT_EQ(played.changes, recorded.changes);
}

TEST(Simulation, TimePassesAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  SimulationOptions options = ranks(2);
  options.world.timeout = Timeout::none();
  const SimulationResult result = simulate(options, [](World& world) {
    const auto before = std::chrono::steady_clock::now();
    if (world.rank() == 0) {
      std::this_thread::sleep_for(1h);
      EXPECT_GE(std::chrono::steady_clock::now() - before, 1h);
    }
    world.group().barrier();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 1h + 1s);
  });
  EXPECT_TRUE(result.ok()) << result.text;
  EXPECT_GE(result.time, 1h);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1min);
}

// Those who only look again and again must not make others oversleep.
TEST(Simulation, SleepsAreExactHoweverLongOthersWait) {
  const SimulationResult result = simulate(ranks(3), [](World& world) {
    if (world.rank() == 0) {
      for (int i = 0; i < 1000; ++i) std::this_thread::sleep_for(10ms);
      std::mutex mutex;
      std::condition_variable nobody_tells;
      std::unique_lock lock(mutex);
      for (int i = 0; i < 1000; ++i) nobody_tells.wait_for(lock, 10ms);
    }
    world.group().barrier();
  });
  EXPECT_TRUE(result.ok()) << result.text;
  EXPECT_GE(result.time, 20s);
  EXPECT_LT(result.time, 20s + 100ms);
}

TEST(Simulation, AnErrorSaysTheSameEachTime) {
  const auto deadlock = [](World& world) {
    std::int32_t value = 0;
    if (world.rank() == 0) world.group().recv(value, 1);
    if (world.rank() == 1) world.group().recv(value, 0);
    world.group().barrier();
  };
  const std::string first = simulate(ranks(2), deadlock).text;
  EXPECT_THAT(first, HasSubstr("deadlock"));
  EXPECT_EQ(simulate(ranks(2), deadlock).text, first);
}

TEST(Simulation, ALimitOf30MinutesPassesAtOnce) {
  SimulationOptions options = ranks(2);
  options.world.timeout = std::chrono::minutes(30);
  const SimulationResult result = simulate(options, [](World& world) {
    if (world.rank() == 0) world.group().barrier();
    std::this_thread::sleep_for(1h);
  });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.text, HasSubstr("timeout: barrier #1"));
  EXPECT_THAT(result.text, HasSubstr("(limit 1800.000 s); missing: rank 1"));
  EXPECT_GE(result.time, 30min);
  EXPECT_LT(result.time, 2h);
}

TEST(Simulation, LocksConditionsAndThreadsOfTheProgramsOwnAreSimulated) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const SimulationResult result = simulate(ranks(2, seed), [](World& world) {
      std::mutex mutex;
      std::condition_variable changed;
      int turn = 0;
      std::vector<std::thread> threads;
      for (int me = 0; me < 3; ++me)
        threads.emplace_back([&, me] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return turn == me; });
          ++turn;
          changed.notify_all();
        });
      for (std::thread& thread : threads) thread.join();
      auto promised = std::async(std::launch::async, [] { return 40; });
      std::int32_t sum = promised.get() + turn;
      world.group().all_reduce(sum);
      EXPECT_EQ(sum, 2 * 43);
    });
    EXPECT_TRUE(result.ok()) << result.story();
  }
}

TEST(Simulation, OtherWaysToWaitAreSimulated) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const SimulationResult result = simulate(ranks(2, seed), [](World& world) {
      std::shared_mutex shared;
      std::mutex tried;
      std::atomic<int> flag = 0;
      std::latch all(3);
      std::binary_semaphore token(0);
      std::once_flag once;
      int made = 0;
      int writes = 0;
      std::vector<std::jthread> threads;
      for (int me = 0; me < 3; ++me)
        threads.emplace_back([&, me] {
          std::call_once(once, [&] { ++made; });
          all.arrive_and_wait();
          if (me == 0) {
            flag = 1;
            flag.notify_all();
            token.acquire();
          } else {
            flag.wait(0);
            if (me == 1) token.release();
          }
          while (!tried.try_lock()) continue;
          tried.unlock();
          {
            const std::shared_lock lock(shared);
          }
          const std::unique_lock lock(shared);
          ++writes;
        });
      threads.clear();
      EXPECT_EQ(made, 1);
      EXPECT_EQ(writes, 3);
      const std::time_t now = std::time(nullptr);
      EXPECT_EQ(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()), now);
      world.group().barrier();
    });
    EXPECT_TRUE(result.ok()) << result.story();
  }
}

TEST(Simulation, AThreadThatNobodyJoinsIsLeftWhereItIs) {
  const SimulationResult result = simulate(ranks(1), [](World&) {
    std::thread([] {
      while (true) std::this_thread::sleep_for(1s);
    }).detach();
  });
  EXPECT_TRUE(result.ok()) << result.text;
}

TEST(Simulation, AnErrorIsThatOfRunRanks) {
  const SimulationResult result = simulate(ranks(3), [](World& world) {
    if (world.rank() == 1) throw std::runtime_error("an own error");
    world.group().barrier();
  });
  EXPECT_THAT(result.text, HasSubstr("rank 1: an own error"));
  EXPECT_THROW(result.rethrow(), RanksFailed);
}

TEST(Simulation, WhereNobodyCanGoOnItSaysWhoWaits) {
  const SimulationResult result = simulate(ranks(2), [](World&) {
    std::mutex* const never_freed = new std::mutex;  // the threads stay, and it with them
    never_freed->lock();
    std::thread([never_freed] { never_freed->lock(); }).join();
  });
  ASSERT_FALSE(result.ok());
  EXPECT_THROW(result.rethrow(), SimulationStuck);
  EXPECT_THAT(result.text, HasSubstr("(rank 1) waits for a lock"));
  EXPECT_TRUE(simulate(ranks(2), sum_once).ok());  // and the next one runs
}

TEST(Simulation, OneThatGetsNowhereIsGivenUp) {
  SimulationOptions options = ranks(2);
  options.most_steps = 5000;
  const SimulationResult result = simulate(options, [](World&) {
    while (true) std::this_thread::sleep_for(1us);
  });
  EXPECT_THAT(result.text, HasSubstr("gets nowhere"));
}

TEST(Simulation, WhereAllLookForEverNobodyCanGoOn) {
  const SimulationResult result = simulate(ranks(2), [](World&) {
    while (true) std::this_thread::yield();
  });
  EXPECT_THAT(result.text, HasSubstr("nobody can go on"));
}

TEST(Simulation, OptionsThatContradictEachOtherAreRefused) {
  EXPECT_THROW(simulate(ranks(0), sum_once), UsageError);
  SimulationOptions options = ranks(2);
  options.hosts = {0};
  EXPECT_THROW(simulate(options, sum_once), UsageError);
  options.hosts = {0, -1};
  EXPECT_THROW(simulate(options, sum_once), UsageError);
  for (const Fault& fault : {Fault::death(2, 1ms), Fault::cut(0, 1, 1ms), Fault::late(0, 5, 0, 1s),
                             Fault::stall(-1, 1ms, 1s), Fault::death(0, Fault::for_ever),
                             Fault::death(0, -1ms), Fault::slow(0, -1ms)}) {
    options = ranks(2);
    options.faults = {fault};
    EXPECT_THROW(simulate(options, sum_once), UsageError);
  }
  EXPECT_THROW(
      simulate(ranks(1), [](World&) { (void)simulate(ranks(1), sum_once).ok(); }).rethrow(),
      RanksFailed);
}

// --- What is found

/// Two groups of the same ranks, which one rank uses in the other order when it is quick.
void use_two_groups(World& world) {
  ProcessGroup red = world.new_group({0, 1}, {.description = "red"});
  ProcessGroup blue = world.new_group({0, 1}, {.description = "blue"});
  std::atomic<bool> is_first = false;
  std::thread other([&] {
    if (world.rank() == 1) is_first = true;
  });
  const bool turned = is_first;
  other.join();
  std::int32_t value = 1;
  (turned ? blue : red).all_reduce(value);
  (turned ? red : blue).all_reduce(value);
}

TEST(Explore, FindsADeadlockOfTwoGroups) {
  const SimulationOptions options = ranks(2);
  const auto found = explore(options, 1000, use_two_groups);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, HasSubstr("deadlock: ranks 0, 1 wait for each other"));
  const SimulationResult least = shorten(options, *found, use_two_groups);
  EXPECT_FALSE(least.ok());
  EXPECT_LE(least.changes.size(), 2u) << least.story();
  EXPECT_THAT(least.story(), HasSubstr("replay = {"));
}

/// A rank that gives up on a message too early does not take it.
void lose_a_message(World& world) {
  std::int32_t value = 1;
  if (world.rank() == 0) {
    std::this_thread::sleep_for(10us);
    return world.group().send(value, 1, 5);
  }
  for (int tries = 0; tries < 40; ++tries)
    if (world.group().iprobe(0, 5)) return (void)world.group().recv(value, 0, 5);
  throw std::runtime_error("the message is lost");
}

TEST(Explore, FindsAMessageThatIsNotWaitedForLongEnough) {
  SimulationOptions options = ranks(2);
  options.random_faults = {.stalls = 1, .within = 50us, .longest = 1s};
  const auto found = explore(options, 1000, lose_a_message);
  ASSERT_TRUE(found);
  const SimulationResult least = shorten(options, *found, lose_a_message);
  EXPECT_LE(least.changes.size(), found->changes.size() / 4) << least.story();
  EXPECT_THAT(least.text, HasSubstr("the message is lost"));
}

/// Tells the condition without its lock, between the look at the flag and the wait.
void forget_the_lock(World& world) {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> is_ready = false;
  std::jthread teller([&] {
    is_ready = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  while (!is_ready)
    if (changed.wait_for(lock, 1h) == std::cv_status::timeout) throw std::runtime_error("not told");
  world.group().barrier();
}

TEST(Explore, FindsAWakeUpThatIsLost) {
  const auto found = explore(ranks(2), 1000, forget_the_lock);
  ASSERT_TRUE(found);
  const SimulationResult least = shorten(ranks(2), *found, forget_the_lock);
  EXPECT_LE(least.changes.size(), 2u) << least.story();
  SimulationOptions again = ranks(2);
  again.replay = least.changes;
  EXPECT_FALSE(simulate(again, forget_the_lock).ok());
}

TEST(Explore, FindsNothingWhereNothingIs) { EXPECT_FALSE(explore(ranks(3), 50, sum_once)); }

TEST(Shorten, RefusesWhatHasNotFailed) {
  const SimulationResult fine = simulate(ranks(2), sum_once);
  EXPECT_THROW(shorten(ranks(2), fine, sum_once), UsageError);
}

TEST(Story, TellsWhatTheProgramNotes) {
  note_in_story("outside of a simulation: nothing");
  const SimulationResult result = simulate(ranks(1), [](World&) { note_in_story("was here"); });
  EXPECT_THAT(result.story(), HasSubstr("ms  rank 0 was here\n"));
}

}  // namespace
}  // namespace hymn::test
