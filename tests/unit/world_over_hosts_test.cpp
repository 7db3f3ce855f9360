// Worlds over an exchange whose ranks pretend to be on several hosts: hymn's own connections carry
// what goes between these.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>
#include <thread>

#include "runtime/world/tcp_control.hpp"
#include "runtime/world/world_over.hpp"
#include "tests/support/limit.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/sanitizers.hpp"
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

void run_threads(const std::string& layout, void (*body)(World&),
                 const WorldOptions& options = {}) {
  const auto hosts = hosts_of(layout);
  const auto post = std::make_shared<SlowPost>(static_cast<int>(hosts.size()), 17u);
  std::vector<std::string> complaints(hosts.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    threads.emplace_back([&, rank] {
      complaints[rank] = run_on(
          hosts[rank], std::make_shared<SlowExchange>(post, static_cast<int>(rank)), body, options);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complaints, std::vector<std::string>(hosts.size())) << layout;
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

}  // namespace
}  // namespace hymn::test
