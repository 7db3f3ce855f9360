// References to values of other workers.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/rpc/workers.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Cannot be sent; tells how many there are in this process.
class Counter {
 public:
  explicit Counter(int value) : value_(value) { ++alive; }
  Counter(Counter&& other) noexcept : value_(other.value_.load()) { ++alive; }
  ~Counter() { --alive; }
  int add(int by) { return value_ += by; }
  static inline std::atomic<int> alive{0};

 private:
  std::atomic<int> value_;
};

const auto make_counter = rpc::register_function("test.counter", [](int value) {
  if (value < 0) throw std::invalid_argument("counters begin at 0");
  return Counter(value);
});
const auto make_list =
    rpc::register_function("test.list", [](int size) { return std::vector<int>(size, size); });
const auto make_slowly = rpc::register_function("test.slow_list", [](int size) {
  std::this_thread::sleep_for(100ms);
  return std::vector<int>(size, size);
});
const auto add_to = rpc::register_function(
    "test.add_to",
    [](const rpc::RemoteRef<Counter>& counter, int by) { return counter.local_value().add(by); });
/// At a worker that has got the reference of another one.
const auto add_there =
    rpc::register_function("test.add_there", [](const rpc::RemoteRef<Counter>& counter, int by) {
      return rpc::Agent::current().rpc_sync(counter.owner(), add_to, counter, by);
    });
const auto pass_back = rpc::register_function(
    "test.pass_back", [](const rpc::RemoteRef<Counter>& counter) { return counter; });
const auto ignore =
    rpc::register_function("test.ignore", [](const std::vector<rpc::RemoteRef<Counter>>&) {});

void expect_soon(const std::function<bool()>& holds, const char* what) {
  for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(holds()) << what;
}

/// All agents hold nothing; before anybody ends.
void expect_nothing_held(World& world, const rpc::Agent& agent) {
  expect_soon([&] { return agent.use().owned_values == 0; }, "a value is still kept");
  expect_soon([&] { return agent.use().held_refs == 0; }, "a reference is still held");
  world.group().barrier();
}

RANK_TEST(RpcRefs, ReachTheirValues) {
  rpc::Agent agent = make_agent(world);
  {
    const int next = (world.rank() + 1) % world.size();
    const auto list = agent.remote(next, make_list, 5);
    EXPECT_EQ(list.owner().rank, next);
    EXPECT_EQ(list.to_here(), std::vector<int>(5, 5));
    EXPECT_EQ(agent.remote(next, make_slowly, 2).to_here(), std::vector<int>(2, 2));
    const auto counter = agent.remote(next, make_counter, 3);
    EXPECT_EQ(counter.is_owner(), next == world.rank());
    EXPECT_EQ(agent.rpc_sync(next, add_to, counter, 4), 7);
    EXPECT_EQ(agent.rpc_sync(next, add_to, counter, 1), 8);
    if (counter.is_owner())
      EXPECT_EQ(counter.local_value().add(0), 8);
    else
      EXPECT_THROW((void)counter.local_value(), UsageError);
  }
  expect_nothing_held(world, agent);
  agent.shutdown();
}

RANK_TEST(RpcRefs, TellWhatWentWrong) {
  rpc::Agent agent = make_agent(world);
  {
    const auto counter = agent.remote(0, make_counter, -1);
    EXPECT_THROW(counter.made().get(), std::invalid_argument);
    EXPECT_THROW(agent.rpc_sync(0, add_to, counter, 1), std::invalid_argument);
    try {
      agent.rpc_sync(0, add_to, counter, 1);
    } catch (const std::exception& error) {
      const auto* const origin = dynamic_cast<const rpc::RemoteOrigin*>(&error);
      ASSERT_NE(origin, nullptr);
      EXPECT_EQ(origin->function(), "test.counter");
    }
    const auto fine = agent.remote(0, make_counter, 1);
    fine.made().get();
    // Types of references are held against each other, too.
    EXPECT_THROW((void)agent.rpc_sync<int>(0, "test.add_to", agent.remote(0, make_list, 1), 1),
                 UsageError);
  }
  expect_nothing_held(world, agent);
  agent.shutdown();
}

RANK_TEST(RpcRefs, GoToThirdWorkers) {
  rpc::Agent agent = make_agent(world);
  const int size = world.size();
  {
    const int owner = (world.rank() + 1) % size;
    const int third = (world.rank() + 2) % size;
    auto counter = agent.remote(owner, make_counter, 0);
    EXPECT_EQ(agent.rpc_sync(third, add_there, counter, 2), 2);
    auto again = agent.rpc_sync(third, pass_back, counter);
    counter = {};
    EXPECT_EQ(agent.rpc_sync(third, add_there, again, 2), 4);
    again = agent.rpc_sync(owner, pass_back, again);
    EXPECT_EQ(agent.rpc_sync(owner, add_to, again, 1), 5);
  }
  expect_nothing_held(world, agent);
  agent.shutdown();
}

/// Copies that go at once, in all directions, while others arrive.
RANK_TEST(RpcRefs, AreCounted) {
  rpc::Agent agent = make_agent(world);
  world.group().barrier();
  const int size = world.size();
  for (int round = 0; round < 20; ++round) {
    std::vector<rpc::RemoteRef<Counter>> refs;
    for (int owner = 0; owner < size; ++owner)
      refs.push_back(agent.remote(owner, make_counter, owner));
    refs.push_back(agent.make_ref(Counter(7)));
    std::vector<Future<void>> done;
    for (int to = 0; to < size; ++to) done.push_back(agent.rpc_async(to, ignore, refs));
    if (round % 2 == 0) refs.clear();
    for (const auto& each : done) each.get();
  }
  expect_nothing_held(world, agent);
  world.group().barrier();
  // Who has taken a value out ends it after that.
  expect_soon([] { return Counter::alive == 0; }, "a counter is still alive");
  world.group().barrier();
  agent.shutdown();
}

}  // namespace
}  // namespace hymn::test
