// Worlds over an exchange whose ranks pretend to be on several hosts: hymn's own connections carry
// what goes between these.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <sstream>
#include <thread>

#include "base/sanitizers.hpp"
#include "runtime/world/tcp_control.hpp"
#include "runtime/world/world_over.hpp"
#include "tests/support/limit.hpp"
#include "tests/support/machines.hpp"
#include "tests/unit/exercise_world.hpp"
#include "tests/unit/forked_ranks.hpp"
#include "tests/unit/toy_exchanges.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// The hosts of ranks, from "0,0,1".
std::vector<std::string> hosts_of(const std::string& layout) {
  std::vector<std::string> hosts;
  std::istringstream words(layout);
  for (std::string place; std::getline(words, place, ',');) hosts.push_back("host" + place);
  return hosts;
}

/// Runs one rank, on that host; its complaint, or "".
std::string run_on(const std::string& host, std::shared_ptr<Exchange> exchange,
                   void (*body)(World&), const WorldOptions& options) {
  try {
    Config config = Config::from_environment();
    config.interface = "127.0.0.0/8";
    detail::WorldParts parts = detail::parts_over(std::move(exchange), config, options);
    Machine machine = make_box({.numa_nodes = 4});
    machine.name = host;
    parts.site = {.host = host, .machine = nullptr, .cpus = machine.cpus};
    parts.site->machine = std::make_shared<const Machine>(std::move(machine));
    if (config.control)
      parts.control = std::make_unique<TcpControl>(
          config.interface, Logger(config.log_level, parts.exchange->rank()));
    World world(detail::WorldState::make(std::move(parts)));
    body(world);
    world.destroy();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Each rank as a thread, with what it gets of the exchange of all.
template <class ExchangeOf>
void run_threads_on(const std::vector<std::string>& hosts, void (*body)(World&),
                    const WorldOptions& options, ExchangeOf exchange_of) {
  const auto post = std::make_shared<SlowPost>(static_cast<int>(hosts.size()), 17u);
  std::vector<std::string> complaints(hosts.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    threads.emplace_back([&, rank] {
      auto slow = std::make_shared<SlowExchange>(post, static_cast<int>(rank));
      complaints[rank] = run_on(hosts[rank], exchange_of(std::move(slow)), body, options);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complaints, std::vector<std::string>(hosts.size()));
}

void run_threads(const std::string& layout, void (*body)(World&),
                 const WorldOptions& options = {}) {
  SCOPED_TRACE(layout);
  run_threads_on(hosts_of(layout), body, options, [](auto slow) { return slow; });
}

std::vector<int> run_processes(const std::string& layout, void (*body)(World&),
                               const WorldOptions& options = {}) {
  const auto hosts = hosts_of(layout);
  return run_forked_ranks(static_cast<int>(hosts.size()), [&](std::shared_ptr<Exchange> exchange) {
    const std::string& host = hosts[static_cast<std::size_t>(exchange->rank())];
    return run_on(host, std::move(exchange), body, options);
  });
}

std::string path_of(World& world, const Request& request) {
  return world.group().explain(request).path;
}

void exercise_all(World& world) {
  std::int32_t value = 0;
  require(
      path_of(world, Request::send(view_of(value), (world.rank() + 1) % world.size(), 0)) == "tcp",
      "the choice of the path");
  exercise(world);
}

TEST(WorldOverHosts, OfThreads) {
  for (const std::string layout : {"0,1", "0,0,1", "0,1,0,2,1"}) run_threads(layout, exercise_all);
}

TEST(WorldOverHosts, OfThreadsOnOneHostThatAskForIt) {
  run_threads("0,0,0", exercise_all, {.path = "tcp"});
}

TEST(WorldOverHosts, OfProcesses) {
  for (const std::string layout : {"0,1", "0,0,1,1", "0,1,2"})
    EXPECT_THAT(run_processes(layout, exercise_all), Each(0)) << layout;
}

void exercise_by_tcp_alone(World& world) {
  require(path_of(world, Request::barrier()) == "tcp", "the choice of the path");
  exercise(world);
}

TEST(WorldOverHosts, OfProcessesByThisPathAlone) {
  EXPECT_THAT(run_processes("0,0,1", exercise_by_tcp_alone, {.path = "tcp"}), Each(0));
}

void exercise_across(World& world) {
  require(path_of(world, Request::barrier()) == "hierarchical", "the choice of the path");
  std::vector<std::int64_t> sum(100'000, world.rank() + 1);
  world.group().all_reduce(sum);
  const int ranks = world.size();
  require(sum == std::vector<std::int64_t>(sum.size(), ranks * (ranks + 1) / 2), "all_reduce");
}

TEST(WorldOverHosts, AlgorithmsAcrossHostsGoByIt) {
  EXPECT_THAT(run_processes("0,0,1,1", exercise_across, {.path = "hierarchical"}), Each(0));
}

void exercise_by_exchange(World& world) {
  require(path_of(world, Request::barrier()) == "exchange", "the choice of the path");
  exercise(world);
}

TEST(WorldOverHosts, WhoForbidsItDoesWithout) {
  EXPECT_THAT(run_processes("0,1", exercise_by_exchange, {.path = "^tcp"}), Each(0));
}

/// Of a group of its own, where the world has none.
void ask_for_a_group(World& world) {
  ProcessGroup own = world.new_group({0, 1}, {.path = "tcp"});
  if (!own.is_member()) return;
  require(own.explain(Request::barrier()).path == "tcp", "the choice of the path");
  try_reductions(own, 7);
  try_moves(own, 20'000);
}

TEST(WorldOverHosts, AGroupMayAskForItAlone) {
  EXPECT_THAT(run_processes("0,0,0", ask_for_a_group), Each(0));
}

/// One is killed while the others wait for it; they go on without it.
void go_on_without_last(World& world) {
  world.group().barrier();
  if (world.rank() == world.size() - 1) ::raise(SIGKILL);
  const std::vector<int> last{world.size() - 1};
  std::vector<float> values(100'000, 1);
  try {
    world.group().all_reduce(values);
    throw std::runtime_error("an all_reduce with the dead has ended well");
  } catch (const PeerError& error) {
    require(error.context().missing == last, std::string("naming in: ") + error.what());
  } catch (const AbortedError& error) {
    require(error.context().missing == last, std::string("naming in: ") + error.what());
  }
  ProcessGroup left = world.group().shrink();
  require(left.size() == world.size() - 1, "shrink");
  try_reductions(left, 7);
  try_moves(left, 20'000);
}

TEST(WorldOverHosts, ADeathIsHeardOfAndTheRestGoOn) {
  for (const char* const path : {"", "tcp"})
    EXPECT_THAT(run_processes("0,1,2", go_on_without_last, {.path = path}),
                ElementsAre(0, 0, SIGKILL));
}

/// A sender that cannot connect, as long as its call may take.
void send_without_connection(World& world) {
  std::vector<std::int32_t> values(5000, world.rank());
  world.group().set_timeout(std::chrono::seconds(4));
  if (world.rank() == 0) {
    const Limit none(RLIMIT_NOFILE, 0);
    try {
      world.group().send(values, 1, 1);
      throw std::runtime_error("a message was sent without a connection");
    } catch (const TimeoutError& error) {
      const std::string text = error.what();
      require(text.find("no connection to rank 1 at 127.0.0.1:") != std::string::npos, text);
      require(text.find("Too many open files") != std::string::npos, text);
    }
  }
  // Both go on when it can.
  world.group().set_timeout(std::chrono::seconds(30));
  if (world.rank() == 0) world.group().send(values, 1, 2);
  if (world.rank() == 1) world.group().recv(values, 0, 2);
  require(values.back() == 0, "the message after that");
}

TEST(WorldOverHosts, ALimitTellsOfAConnectionThatCannotBeMade) {
  if (address_sanitized) GTEST_SKIP() << "a sanitizer needs descriptors to look at objects";
  EXPECT_THAT(run_processes("0,1", send_without_connection, {.path = "tcp"}), Each(0));
}

/// A receiver that computes for long: the sender waits, and nothing is lost.
void wait_for_who_is_busy(World& world) {
  constexpr int messages = 300;
  std::vector<std::int32_t> values(5000);
  if (world.rank() == 0) {
    for (int i = 0; i < messages; ++i) {
      std::fill(values.begin(), values.end(), i);
      world.group().send(values, 1, 1);
    }
    return;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  for (int i = 0; i < messages; ++i) {
    world.group().recv(values, 0, 1);
    require(std::count(values.begin(), values.end(), i) == 5000, "the order of messages");
  }
}

TEST(WorldOverHosts, AReceiverMayBeBusy) {
  EXPECT_THAT(run_processes("0,1", wait_for_who_is_busy), Each(0));
}

/// What a rank has sent by the exchange.
struct Sent {
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::uint64_t> bytes{0};
};

class CountingExchange final : public Exchange {
 public:
  CountingExchange(std::shared_ptr<Exchange> carrier, Sent& sent)
      : carrier_(std::move(carrier)), sent_(sent) {}
  int rank() const override { return carrier_->rank(); }
  int size() const override { return carrier_->size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    ++sent_.messages;
    sent_.bytes += bytes.size();
    carrier_->send(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return carrier_->try_receive(from, tag);
  }
  std::string name() const override { return carrier_->name(); }

 private:
  std::shared_ptr<Exchange> carrier_;
  Sent& sent_;
};

/// By each of so many ranks, each of a host of its own, until the world is there.
std::vector<Sent> make_world_of(std::size_t ranks) {
  std::vector<std::string> hosts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    hosts.push_back("host" + std::to_string(1000 + rank));
  std::vector<Sent> sent(ranks);
  run_threads_on(
      hosts, [](World&) {}, {},
      [&sent](auto slow) {
        Sent& own = sent[static_cast<std::size_t>(slow->rank())];
        return std::make_shared<CountingExchange>(std::move(slow), own);
      });
  return sent;
}

// docs/worlds.md computes from this what thousands of hosts take.
TEST(WorldOverHosts, WhatItTakesToMakeOne) {
  struct Cost {
    std::uint64_t of_each, of_first, bytes_of_each, bytes_of_first;
  };
  std::map<std::size_t, Cost> costs;
  for (const std::size_t ranks : {8u, 16u, 32u}) {
    const std::vector<Sent> sent = make_world_of(ranks);
    Cost& cost = costs[ranks];
    cost = {sent[1].messages, sent[0].messages, sent[1].bytes, sent[0].bytes};
    for (std::size_t rank = 2; rank < ranks; ++rank) EXPECT_EQ(sent[rank].messages, cost.of_each);
    std::printf("%zu hosts: each sends %lu messages, %lu bytes; the first %lu, %lu\n", ranks,
                cost.of_each, cost.bytes_of_each, cost.of_first, cost.bytes_of_first);
  }
  EXPECT_EQ(costs[8].of_each, costs[32].of_each);
  EXPECT_EQ(costs[32].of_first - costs[16].of_first, 2 * (costs[16].of_first - costs[8].of_first));
  // The first tells all what all have said.
  EXPECT_LT(costs[32].bytes_of_first, 5 * costs[16].bytes_of_first);
}

}  // namespace
}  // namespace hymn::test
