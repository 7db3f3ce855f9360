// What lies between the ranks of a simulation, and what goes wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/simulation/simulations.hpp"

namespace hymn::test {
namespace {

// --- Hosts and links

TEST(SimulatedLinks, CarryMessagesInTheirTime) {
  SimulationOptions options = ranks(2);
  options.hosts = {0, 1};
  options.link = {.latency = 1s, .bytes_per_second = 1e6};
  const SimulationResult result = simulate(options, [](World& world) {
    std::vector<std::byte> data(2'000'000);
    world.group().barrier();
    const auto began = std::chrono::steady_clock::now();
    if (world.rank() == 0)
      world.group().send(BufferView(data.data(), data.size(), DataType::uint8), 1);
    else
      world.group().recv(BufferView(data.data(), data.size(), DataType::uint8), 0);
    // Two seconds for the bytes, and one for the way; the sender need not wait.
    if (world.rank() == 1) {
      EXPECT_GE(std::chrono::steady_clock::now() - began, 2s);
      EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
    }
  });
  EXPECT_TRUE(result.ok()) << result.text;
}

/// How long rank 0 takes to hear from each of the others.
std::vector<Duration> answers_of(const SimulationOptions& options) {
  std::vector<Duration> answers;
  const SimulationResult result = simulate(options, [&](World& world) {
    std::int32_t word = 0;
    world.group().barrier();
    for (int other = 1; other < world.size(); ++other) {
      const auto began = std::chrono::steady_clock::now();
      if (world.rank() == 0) {
        world.group().send(word, other);
        world.group().recv(word, other);
        answers.push_back(std::chrono::steady_clock::now() - began);
      } else if (world.rank() == other) {
        world.group().recv(word, 0);
        world.group().send(word, 0);
      }
    }
  });
  EXPECT_TRUE(result.ok()) << result.text;
  return answers;
}

TEST(SimulatedLinks, OneMayBeUnlikeTheOthers) {
  SimulationOptions options = ranks(3);
  options.hosts = {0, 1, 2};
  options.link = {.latency = 1ms};
  options.links = {{.host = 2, .other = 0, .link = {.latency = 1s}}};
  const std::vector<Duration> answers = answers_of(options);
  EXPECT_GE(answers.at(0), 2ms);
  EXPECT_LT(answers.at(0), 100ms);
  EXPECT_GE(answers.at(1), 2s);
  EXPECT_LT(answers.at(1), 3s);
  options.links = {{.host = 2, .other = 3, .link = {}}};
  EXPECT_THROW(simulate(options, sum_once).rethrow(), UsageError);
  options.links = {{.host = 0, .other = 1, .link = {.bytes_per_second = 0}}};
  EXPECT_THROW(simulate(options, sum_once).rethrow(), UsageError);
}

void sum_100_times(World& world) {
  for (int i = 0; i < 100; ++i) {
    sum_once(world);
    std::this_thread::sleep_for(1ms);
  }
}

TEST(SimulatedLinks, ACutThatHealsLosesNothing) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimulationOptions options = ranks(4, seed);
    options.hosts = {0, 0, 1, 1};
    options.faults = {Fault::cut(0, 1, 20ms, 4s)};
    const SimulationResult result = simulate(options, sum_100_times);
    EXPECT_TRUE(result.ok()) << result.story();
    EXPECT_GE(result.time, 4s);
    EXPECT_LT(result.time, 5s);
  }
}

TEST(SimulatedLinks, ACutForGoodEndsAtTheLimit) {
  SimulationOptions options = ranks(2);
  options.hosts = {0, 1};
  options.faults = {Fault::cut(0, 1, 20ms)};
  const SimulationResult result = simulate(options, sum_100_times);
  EXPECT_THAT(result.text, HasSubstr("timeout: all_reduce"));
  EXPECT_GE(result.time, 30min);
}

TEST(SimulatedLinks, ALateMessageHoldsUpWhoWaitsForIt) {
  SimulationOptions options = ranks(2);
  options.hosts = {0, 1};
  const Duration usual = simulate(options, sum_100_times).time;
  options.faults = {Fault::late(0, 1, 60, 10s)};
  const SimulationResult result = simulate(options, sum_100_times);
  EXPECT_TRUE(result.ok()) << result.text;
  EXPECT_GE(result.time, usual + 9s);
  EXPECT_LT(result.time, usual + 11s);
}

// --- Ranks that die, stop, or are slow

TEST(SimulatedFaults, OthersGoOnWithoutARankThatDies) {
  for (const std::uint64_t step : {1, 100, 300, 500, 501, 502}) {
    SimulationOptions options = ranks(4, step);
    options.faults = {Fault::death_at_step(2, step)};
    std::set<int> left;
    const SimulationResult result =
        simulate(options, [&left](World& world) { left.insert(sum_and_shrink(world, 200)); });
    EXPECT_TRUE(result.ok()) << result.story();
    EXPECT_EQ(left, std::set<int>{3}) << result.story();
  }
}

TEST(SimulatedFaults, ADeathIsToldToWhoWaits) {
  SimulationOptions options = ranks(2);
  options.faults = {Fault::death(1, 1s)};
  const SimulationResult result = simulate(options, [](World& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(1h);
    world.group().barrier();
  });
  EXPECT_THAT(result.text, HasSubstr("rank 1 (host0"));
  EXPECT_THAT(result.text, HasSubstr("is dead: its process has ended"));
  EXPECT_LT(result.time, 2s);
}

TEST(SimulatedFaults, AStalledRankIsWaitedFor) {
  SimulationOptions options = ranks(3);
  options.faults = {Fault::stall(1, 20ms, 5min)};
  const SimulationResult result = simulate(options, sum_100_times);
  EXPECT_TRUE(result.ok()) << result.text;
  EXPECT_GE(result.time, 5min);
  EXPECT_LT(result.time, 6min);
}

TEST(SimulatedFaults, OneStalledForEverIsTold) {
  SimulationOptions options = ranks(2);
  options.faults = {Fault::stall(1, 20ms, Fault::for_ever)};
  const SimulationResult result = simulate(options, sum_100_times);
  EXPECT_THAT(result.text, HasSubstr("timeout: all_reduce"));
}

TEST(SimulatedFaults, ASlowRankIsSlow) {
  SimulationOptions options = ranks(2);
  const Duration usual = simulate(options, sum_100_times).time;
  options.faults = {Fault::slow(1, 1ms)};
  const SimulationResult result = simulate(options, sum_100_times);
  EXPECT_TRUE(result.ok()) << result.text;
  EXPECT_GT(result.time, usual + 100ms);
}

TEST(SimulatedFaults, FromTheStartMeetWorldsThatAreMade) {
  int failed = 0;
  for (std::uint64_t step = 1; step < 300; step += 20) {
    SimulationOptions options = ranks(3);
    options.faults = {Fault::death_at_step(1, step)};
    options.faults_from_start = true;
    const SimulationResult result = simulate(options, sum_once);
    if (result.ok()) continue;
    ++failed;
    EXPECT_THAT(result.text, HasSubstr("rank"));
  }
  EXPECT_GT(failed, 5);
}

TEST(SimulatedFaults, AreDrawnFromTheSeed) {
  SimulationOptions options = ranks(4);
  options.hosts = {0, 0, 1, 1};
  options.random_faults = {.deaths = 1, .stalls = 1, .cuts = 1, .late = 1};
  std::set<int> stories;
  for (options.seed = 0; options.seed < 30; ++options.seed) {
    const SimulationResult result = simulate(options, [](World& w) { sum_and_shrink(w, 30); });
    EXPECT_TRUE(result.ok()) << result.story();
    EXPECT_EQ(result.faults.size(), 4u);
    EXPECT_EQ(result.steps, simulate(options, [](World& w) { sum_and_shrink(w, 30); }).steps);
    stories.insert(result.faults.front().from * 10000 +
                   static_cast<int>(result.faults.front().step));
  }
  EXPECT_GT(stories.size(), 20u);
}

}  // namespace
}  // namespace hymn::test
