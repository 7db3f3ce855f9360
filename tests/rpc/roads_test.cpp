// By what messages go between workers of one host, and what becomes of that where memory is
// refused.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "tests/rpc/worker_processes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const auto road_add = rpc::register_function("road.add", [](int a, int b) { return a + b; });

/// What worker 0 says of its road to worker 1, over which calls go.
std::string road_from_first(const std::function<void(int rank)>& set_up) {
  Workers workers;
  workers.set_up = set_up;
  workers.add([](rpc::Agent& agent) {
    std::string said = agent.explain(1);
    if (agent.rpc_sync(1, road_add, 2, 3) != 5) said = "a wrong sum";
    agent.shutdown();
    return said;
  });
  workers.add([](rpc::Agent& agent) {
    std::string said = agent.rpc_sync(0, road_add, 1, 1) == 2 ? "" : "a wrong sum";
    agent.shutdown();
    return said;
  });
  workers.start();
  EXPECT_EQ(workers.report(1), "");
  return workers.report(0);
}

TEST(RpcRoads, GoThroughSharedMemory) {
  EXPECT_EQ(road_from_first([](int) {}), "shared memory");
}

TEST(RpcRoads, AreSocketsWhereOneWantsThat) {
  const std::string said = road_from_first([](int rank) {
    if (rank == 1) ::setenv("HYMN_PATH", "^shm", 1);
  });
  EXPECT_THAT(said, HasSubstr("a socket"));
  EXPECT_THAT(said, HasSubstr("HYMN_PATH is ^shm (rank 1)"));
}

TEST(RpcRoads, AreSocketsWhereThereIsNoMemory) {
  const std::string said = road_from_first([](int rank) {
    const rlimit small{100'000, 100'000};
    if (rank == 0) ::setrlimit(RLIMIT_FSIZE, &small);
  });
  EXPECT_THAT(said, HasSubstr("a socket"));
  EXPECT_THAT(said, HasSubstr("size of files"));
  EXPECT_THAT(said, HasSubstr("(rank 0)"));
}

/// Calls come when the other end looks, when it is about to sleep, and when it sleeps.
TEST(RpcRoads, NobodySleepsOverACall) {
  Workers workers;
  const auto call_now_and_then = [](rpc::Agent& agent) {
    std::mt19937 random(static_cast<unsigned>(agent.self().rank));
    int late = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto started = Clock::now();
      if (agent.rpc_sync(1 - agent.self().rank, road_add, i, 1) != i + 1) return std::string("no");
      // Whoever is not woken sleeps for 250 ms.
      if (Clock::now() - started > 200ms) ++late;
      const auto pause = std::chrono::microseconds(random() % 150);
      for (const auto since = Clock::now(); Clock::now() - since < pause;) {
      }
    }
    agent.shutdown();
    return late > 2 ? std::to_string(late) + " calls came late" : std::string();
  };
  workers.add(call_now_and_then);
  workers.add(call_now_and_then);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
}

}  // namespace
}  // namespace hymn::test
