// Calls between workers, over threads and over processes.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "tests/rpc/workers.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const auto add = rpc::register_function("test.add", [](double a, double b) { return a + b; });
const auto join_texts = rpc::register_function(
    "test.join", [](const std::map<std::string, std::vector<int>>& lists, const std::string& mark) {
      std::string text;
      for (const auto& [name, values] : lists)
        for (const int value : values) text += name + mark + std::to_string(value) + ";";
      return text;
    });
const auto do_nothing = rpc::register_function("test.nothing", [] {});
const auto sleep_for = rpc::register_function(
    "test.sleep", [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
const auto name_here =
    rpc::register_function("test.name", [] { return rpc::Agent::current().self().name; });
const auto twice = rpc::register_function("test.twice", [](const rpc::Buffer& given) {
  rpc::Buffer result(given.size());
  std::transform(given.as<int>().begin(), given.as<int>().end(), result.as<int>().begin(),
                 [](int value) { return 2 * value; });
  return result;
});
/// Down, one worker after the other.
const auto descend = rpc::register_function("test.descend", [](int depth) -> int {
  if (depth == 0) return 0;
  rpc::Agent agent = rpc::Agent::current();
  const int next = (agent.self().rank + 1) % static_cast<int>(agent.workers().size());
  return 1 + agent.rpc_sync<int>(next, "test.descend", depth - 1);
});
const auto ask_later = rpc::register_function("test.later", [](int value) {
  rpc::Agent agent = rpc::Agent::current();
  const int next = (agent.self().rank + 1) % static_cast<int>(agent.workers().size());
  return agent.rpc_async(next, add, static_cast<double>(value), 0.5);
});

std::string next_name(const World& world) { return worker_name((world.rank() + 1) % world.size()); }

RANK_TEST(RpcCalls, GiveResults) {
  rpc::Agent agent = make_agent(world);
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(agent.rpc_sync(worker_name(rank), add, rank, 0.25), rank + 0.25);
    EXPECT_EQ(agent.rpc_sync(rank, name_here), worker_name(rank));
    EXPECT_EQ(agent.rpc_sync<double>(rank, "test.add", 1.0, 2.0), 3.0);
    agent.rpc_sync(rank, do_nothing);
  }
  const std::map<std::string, std::vector<int>> lists{{"a", {1, 2}}, {"b", {3}}};
  EXPECT_EQ(agent.rpc_sync(next_name(world), join_texts, lists, "="), "a=1;a=2;b=3;");
  agent.shutdown();
}

RANK_TEST(RpcCalls, AreFutures) {
  rpc::Agent agent = make_agent(world);
  std::vector<Future<double>> sums;
  for (int i = 0; i < 100; ++i)
    sums.push_back(
        agent.rpc_async(next_name(world), add, i, 1.0).then([](double sum) { return 10 * sum; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)].get(), 10 * (i + 1.0));
  EXPECT_EQ(agent.rpc_sync(next_name(world), ask_later, 3), 3.5);
  agent.shutdown();
}

RANK_TEST(RpcCalls, CarryBuffers) {
  rpc::Agent agent = make_agent(world);
  for (const std::size_t count : {0u, 3u, 1024u, 100'000u, 3'000'000u}) {
    std::vector<int> values(count);
    std::iota(values.begin(), values.end(), world.rank());
    const rpc::Buffer result = agent.rpc_sync(next_name(world), twice, rpc::Buffer::of(values));
    ASSERT_EQ(result.as<int>().size(), count);
    for (std::size_t i = 0; i < count; ++i)
      if (result.as<int>()[i] != 2 * values[i]) {
        ADD_FAILURE() << "element " << i << " of " << count;
        break;
      }
  }
  agent.shutdown();
}

RANK_TEST(RpcCalls, NestDeeply) {
  rpc::AgentOptions options;
  options.threads = 1;
  rpc::Agent agent = make_agent(world, options);
  EXPECT_EQ(agent.rpc_sync(next_name(world), descend, 64), 64);
  agent.shutdown();
}

RANK_TEST(RpcCalls, AreRefusedWhereTheyAreWrong) {
  rpc::Agent agent = make_agent(world);
  const std::string to = next_name(world);
  EXPECT_THROW((void)agent.rpc_async<int>(to, "test.add", 1.0, 2.0), UsageError);
  EXPECT_THROW((void)agent.rpc_async<double>(to, "test.add", 1.0), UsageError);
  EXPECT_THROW((void)agent.rpc_async("nobody", do_nothing), UsageError);
  EXPECT_THROW((void)agent.rpc_async(world.size(), do_nothing), UsageError);
  try {
    agent.rpc_sync<int>(to, "test.unknown", 1);
    ADD_FAILURE() << "an unknown function was called";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("test.unknown"));
    EXPECT_THAT(error.what(), HasSubstr(to));
  }
  EXPECT_EQ(agent.rpc_sync(to, add, 1, 2), 3);
  agent.shutdown();
}

/// What the other end would refuse costs no link.
RANK_TEST(RpcCalls, AreAsLargeAsBothEndsTake) {
  rpc::AgentOptions options;
  if (world.rank() == 0) options.max_message_bytes = std::size_t{1} << 20;
  rpc::Agent agent = make_agent(world, options);
  const rpc::Buffer large(std::size_t{2} << 20);
  EXPECT_THROW((void)agent.rpc_async(0, twice, large), UsageError);
  EXPECT_THROW((void)agent.rpc_async<void>(0, std::string(5000, 'x')), UsageError);
  const std::vector<rpc::RemoteRef<int>> many(70'000, agent.make_ref(1));
  EXPECT_THROW((void)agent.rpc_async<void>(0, "test.unknown", many), UsageError);
  EXPECT_EQ(agent.rpc_sync(0, add, 1, 2), 3);
  agent.shutdown();
}

RANK_TEST(RpcCalls, HaveLimits) {
  rpc::Agent agent = make_agent(world);
  const auto started = std::chrono::steady_clock::now();
  try {
    agent.rpc_sync({.timeout = 50ms}, next_name(world), sleep_for, 600);
    ADD_FAILURE() << "the limit has not passed";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr(next_name(world)));
    EXPECT_THAT(error.context().missing, testing::ElementsAre((world.rank() + 1) % world.size()));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, 2s);
  EXPECT_EQ(agent.use().calls, 0u);
  agent.shutdown();
}

/// Whoever carries a long call out was perhaps the one that reads what comes next.
RANK_TEST(RpcCalls, AreNotHeldUpByLongOnes) {
  rpc::Agent agent = make_agent(world);
  const std::string to = next_name(world);
  world.group().barrier();
  for (int round = 0; round < 3; ++round) {
    const auto slow = agent.rpc_async(to, sleep_for, 400);
    const auto started = std::chrono::steady_clock::now();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(agent.rpc_sync(to, add, i, 1), i + 1);
    EXPECT_LT(std::chrono::steady_clock::now() - started, 300ms);
    EXPECT_FALSE(slow.is_ready());
    slow.get();
  }
  agent.shutdown();
}

/// What is chained to a call may call, and wait for that.
RANK_TEST(RpcCalls, GoOnFromContinuations) {
  rpc::Agent agent = make_agent(world);
  const std::string to = next_name(world);
  world.group().barrier();
  std::vector<Future<double>> sums;
  for (int i = 0; i < 20; ++i)
    sums.push_back(agent.rpc_async(to, add, i, 1).then([&](double sum) {
      return agent.rpc_sync(to, add, agent.rpc_sync(to, add, sum, 1), 1);
    }));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)].get(), i + 3);
  agent.shutdown();
}

/// Nobody waits for it with a call of its own: threads of the agent read what comes.
RANK_TEST(RpcCalls, EndWithoutWhoWaits) {
  rpc::Agent agent = make_agent(world);
  std::atomic<int> ended{0};
  for (int i = 0; i < 50; ++i)
    agent.rpc_async(next_name(world), add, i, 1).on_ready([&] { ++ended; });
  for (int i = 0; i < 500 && ended < 50; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(ended, 50);
  agent.shutdown();
}

RANK_TEST(RpcCalls, BeginNotWhenTheirTimeHasPassed) {
  static std::atomic<int> begun{0};
  static const auto note = rpc::register_function("test.note", [] { ++begun; });
  rpc::AgentOptions options;
  options.threads = 1;
  rpc::Agent agent = make_agent(world, options);
  const std::string to = worker_name(world.rank());
  const int before = begun;
  if (world.rank() == 0) {
    const auto busy = agent.rpc_async(to, sleep_for, 200);
    EXPECT_THROW(agent.rpc_sync({.timeout = 50ms}, to, note), TimeoutError);
    busy.get();
    agent.rpc_sync(to, do_nothing);
    EXPECT_EQ(begun, before);
  }
  agent.shutdown();
}

RANK_TEST(RpcCalls, AreNoMoreAfterTheEnd) {
  rpc::Agent agent = make_agent(world);
  agent.shutdown();
  agent.shutdown();
  EXPECT_THROW((void)agent.rpc_async(0, do_nothing), AbortedError);
}

RANK_TEST(RpcCalls, EndWithAnAbort) {
  rpc::Agent agent = make_agent(world);
  world.group().barrier();
  const auto call = agent.rpc_async(next_name(world), sleep_for, 300);
  if (world.rank() == 0) agent.abort("enough of it");
  const bool concerns_me = world.rank() == 0 || (world.rank() + 1) % world.size() == 0;
  if (concerns_me) {
    try {
      call.get();
      ADD_FAILURE() << "the call was answered";
    } catch (const AbortedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("enough of it"));
    }
  } else {
    call.get();
  }
  agent.shutdown();
}

/// What calls have begun when all have come to the end is waited for, too.
RANK_TEST(RpcCalls, AreWaitedForAtTheEnd) {
  static std::atomic<int> reached{0};
  static const auto chain = rpc::register_function("test.chain", [](int left) {
    std::this_thread::sleep_for(5ms);
    rpc::Agent agent = rpc::Agent::current();
    if (left == 0)
      ++reached;
    else
      (void)agent.rpc_async<void>(
          (agent.self().rank + 1) % static_cast<int>(agent.workers().size()), "test.chain",
          left - 1);
  });
  const int before = reached;
  world.group().barrier();
  rpc::Agent agent = make_agent(world);
  if (world.rank() == 0) (void)agent.rpc_async(next_name(world), chain, 20);
  agent.shutdown();
  world.group().barrier();
  const bool is_end = ranks_are_threads() || (21 % world.size()) == world.rank();
  if (is_end) {
    EXPECT_EQ(reached, before + 1);
  }
  world.group().barrier();
}

RANK_TEST(RpcCalls, ComeFromManyThreads) {
  rpc::Agent agent = make_agent(world);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        if (agent.rpc_sync(i % world.size(), add, i, t) != i + t) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  agent.shutdown();
}

}  // namespace
}  // namespace hymn::test
