// Contexts and backward passes of a toy framework, whose values are numbers.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include "hymn/rpc_context.hpp"
#include "tests/rpc/workers.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Nodes are numbers from 1 on; each adds what it gets, and gives that times its weight to all of
/// its edges.
class ToyGraph {
 public:
  using Node = int;
  using Value = int;
  struct Edge {
    Node node = 0;
    std::size_t input = 0;
  };
  struct Known {
    int weight = 1;
    std::vector<Edge> next{};
    std::size_t inputs = 1;
  };

  ToyGraph(std::map<int, Known> nodes, std::vector<std::pair<int, int>>* ran)
      : nodes_(std::move(nodes)), ran_(ran) {}
  std::vector<Edge> next(Node node) { return nodes_.at(node).next; }
  std::size_t inputs(Node node) { return nodes_.at(node).inputs; }
  std::uint64_t order(Node node) { return static_cast<std::uint64_t>(node); }
  void add(Value& sum, Value&& more) { sum += more; }
  std::vector<Value> run(Node node, std::vector<Value>&& inputs) {
    int sum = 0;
    for (const int each : inputs) sum += each;
    ran_->emplace_back(node, sum);
    const Known& known = nodes_.at(node);
    return std::vector<Value>(known.next.size(), known.weight * sum);
  }

 private:
  std::map<int, Known> nodes_;
  std::vector<std::pair<int, int>>* ran_;
};
using Ran = std::vector<std::pair<int, int>>;

TEST(BackwardRun, RunsEachNodeOnceWhenAllHasCome) {
  Ran ran;
  // 4 goes to 3 and 2, both to 1.
  distributed::BackwardRun<ToyGraph> run(ToyGraph(
      {{4, {1, {{3, 0}, {2, 0}}}}, {3, {2, {{1, 0}}}}, {2, {3, {{1, 1}}}}, {1, {1, {}, 2}}}, &ran));
  run.expect({{4, 0}});
  run.give({{4, 0}}, {5});
  EXPECT_EQ(ran, (Ran{{4, 5}, {3, 5}, {2, 5}, {1, 25}}));
}

TEST(BackwardRun, WaitsForMessages) {
  Ran ran;
  distributed::BackwardRun<ToyGraph> run(
      ToyGraph({{3, {1, {{1, 0}}}}, {2, {1, {{1, 0}}}}, {1, {}}}, &ran));
  // A root, and two values of messages; one of them is the root's own input.
  run.expect({{3, 0}, {2, 0}, {1, 0}});
  run.give({{3, 0}}, {1});
  EXPECT_EQ(ran, (Ran{{3, 1}}));
  run.give({{1, 0}}, {10});
  EXPECT_EQ(ran, (Ran{{3, 1}}));
  run.give({{2, 0}}, {100});
  EXPECT_EQ(ran, (Ran{{3, 1}, {2, 100}, {1, 111}}));
}

TEST(BackwardRun, LeavesOutWhatNeedsNoGradient) {
  Ran ran;
  distributed::BackwardRun<ToyGraph> run(ToyGraph({{1, {1, {{0, 0}}}}}, &ran));
  run.expect({{1, 0}, {0, 0}});
  run.give({{1, 0}, {0, 0}}, {1, 2});
  EXPECT_EQ(ran, (Ran{{1, 1}}));
}

const auto context_here = rpc::register_function("context.here", [] {
  const auto context = distributed::Context::current();
  return context ? context->id() : std::uint64_t{0};
});
/// From worker to worker.
const auto go_on = rpc::register_function("context.go_on", [](int steps) {
  rpc::Agent agent = rpc::Agent::current();
  const int next = (agent.self().rank + 1) % static_cast<int>(agent.workers().size());
  if (steps == 0) throw std::runtime_error("the way ends here");
  agent.rpc_sync<void>(next, "context.go_on", steps - 1);
});

void expect_forgotten(World& world, const rpc::Agent& agent) {
  for (int i = 0; i < 500 && distributed::Context::count(agent) != 0; ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(distributed::Context::count(agent), 0u);
  world.group().barrier();
}

RANK_TEST(RpcContexts, GoWithCalls) {
  rpc::Agent agent = make_agent(world);
  const int next = (world.rank() + 1) % world.size();
  EXPECT_EQ(agent.rpc_sync(next, context_here), 0u);
  {
    const distributed::Context context(agent);
    EXPECT_EQ(distributed::Context::current()->id(), context.id());
    EXPECT_EQ(agent.rpc_sync(next, context_here), context.id());
  }
  EXPECT_EQ(distributed::Context::current(), nullptr);
  EXPECT_EQ(agent.rpc_sync(next, context_here), 0u);
  expect_forgotten(world, agent);
  agent.shutdown();
}

/// By all workers that they have reached, however far, also after an error.
RANK_TEST(RpcContexts, AreForgotten) {
  rpc::Agent agent = make_agent(world);
  for (int round = 0; round < 5; ++round) {
    try {
      const distributed::Context context(agent);
      agent.rpc_sync(0, go_on, 2 * world.size());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the way ends here"));
    }
  }
  expect_forgotten(world, agent);
  agent.shutdown();
}

/// What comes of a context that is gone does not make it again.
RANK_TEST(RpcContexts, AreNotMadeAgain) {
  static const auto later = rpc::register_function("context.later", [] {
    std::this_thread::sleep_for(50ms);
    rpc::Agent agent = rpc::Agent::current();
    for (const rpc::WorkerInfo& each : agent.workers()) agent.rpc_sync(each, context_here);
  });
  rpc::Agent agent = make_agent(world);
  Future<void> call = [&] {
    const distributed::Context context(agent);
    agent.rpc_sync((world.rank() + 1) % world.size(), context_here);
    return agent.rpc_async(world.rank(), later);
  }();
  call.get();
  expect_forgotten(world, agent);
  agent.shutdown();
}

RANK_TEST(RpcContexts, AreFoundByNumber) {
  rpc::Agent agent = make_agent(world);
  {
    const distributed::Context context(agent);
    EXPECT_EQ(distributed::Context::find(agent, context.id())->id(), context.id());
    EXPECT_THROW((void)distributed::Context::find(agent, context.id() + 1), UsageError);
  }
  agent.shutdown();
}

}  // namespace
}  // namespace hymn::test
