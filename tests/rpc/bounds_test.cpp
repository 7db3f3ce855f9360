// What waits for a worker that is slow, or that reads nothing, has a bound; both ends go on.
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "control/process_state.hpp"
#include "hymn/rpc_context.hpp"
#include "tests/rpc/worker_processes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t bound = std::size_t{4} << 20;

/// The process that is about to stop; 0: none yet.
std::atomic<int> stops{0};
const auto bounds_stops = rpc::register_function("bounds.stops", [](int pid) { stops = pid; });
const auto bounds_keep = rpc::register_function("bounds.keep", [](const rpc::Buffer& given) {
  std::this_thread::sleep_for(5ms);
  return std::uint64_t{given.size()};
});
const auto bounds_make =
    rpc::register_function("bounds.make", [](std::uint64_t bytes) { return rpc::Buffer(bytes); });
const auto bounds_fail =
    rpc::register_function("bounds.fail", [] { throw std::logic_error(std::string(10'000, 'x')); });
const auto bounds_flood = rpc::register_function("bounds.flood", [](int rank, int calls) {
  rpc::Agent agent = rpc::Agent::current();
  std::vector<Future<std::uint64_t>> sizes;
  for (int i = 0; i < calls; ++i)
    sizes.push_back(agent.rpc_async(rank, bounds_keep, rpc::Buffer(std::size_t{1} << 20)));
  std::uint64_t sum = 0;
  for (const auto& size : sizes) sum += size.get();
  return sum;
});

struct Outcomes {
  int answered = 0;
  int refused = 0;
  std::string other{};

  template <class T>
  void add(const Future<T>& call) {
    try {
      (void)call.get();
      ++answered;
    } catch (const ResourceError&) {
      ++refused;
    } catch (const std::exception& error) {
      other = error.what();
    }
  }
  std::string judge() const {
    if (!other.empty()) return other;
    if (answered == 0 || refused == 0)
      return std::to_string(answered) + " answered, " + std::to_string(refused) + " refused";
    return "";
  }
};

TEST(RpcBounds, CallsThatWaitToBeCarriedOut) {
  Workers workers;
  workers.options.threads = 1;
  workers.options.max_queued_bytes = bound;
  workers.add([](rpc::Agent& agent) {
    const rpc::Buffer part(std::size_t{256} << 10);
    std::vector<Future<std::uint64_t>> calls;
    for (int i = 0; i < 100; ++i) {
      try {
        calls.push_back(agent.rpc_async(1, bounds_keep, part));
      } catch (const ResourceError&) {  // they wait here
        std::this_thread::sleep_for(1ms);
      }
    }
    Outcomes outcomes;
    for (const auto& call : calls) outcomes.add(call);
    std::string said = outcomes.judge();
    if (agent.rpc_sync(1, bounds_keep, part) != part.size()) said = "it does not go on";
    agent.shutdown();
    return said;
  });
  workers.add(serve);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
}

TEST(RpcBounds, ResultsThatNobodyReads) {
  Workers workers;
  workers.options.max_queued_bytes = bound;
  workers.add([](rpc::Agent& agent) {
    agent.rpc_sync(2, bounds_stops, int{::getpid()});
    std::vector<Future<rpc::Buffer>> calls;
    for (int i = 0; i < 64; ++i)
      calls.push_back(agent.rpc_async(1, bounds_make, std::uint64_t{1} << 20));
    ::raise(SIGSTOP);
    Outcomes outcomes;
    for (const auto& call : calls) outcomes.add(call);
    std::string said = outcomes.judge();
    if (agent.rpc_sync(1, bounds_make, std::uint64_t{10}).size() != 10) said = "it does not go on";
    agent.shutdown();
    return said;
  });
  workers.add(serve);
  workers.add([](rpc::Agent& agent) {
    while (stops == 0) std::this_thread::sleep_for(10ms);
    const int pid = stops;
    while (!is_stopped(pid)) std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(300ms);
    ::kill(pid, SIGCONT);
    agent.shutdown();
    return std::string();
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
  EXPECT_EQ(workers.report(2), "");
}

/// Errors are answers that nothing refuses. Who reads none of them, and wants more, is given up.
TEST(RpcBounds, ErrorsThatNobodyReads) {
  Workers workers;
  workers.options.max_queued_bytes = bound;
  workers.add([](rpc::Agent& agent) {
    agent.rpc_sync(2, bounds_stops, int{::getpid()});
    std::vector<Future<void>> calls;
    for (int i = 0; i < 2000; ++i) calls.push_back(agent.rpc_async(1, bounds_fail));
    ::raise(SIGSTOP);
    int thrown = 0;
    int lost = 0;
    for (const auto& call : calls) {
      try {
        call.get();
      } catch (const PeerError& error) {
        lost += error.context().missing == std::vector<int>{1} ? 1 : 0;
      } catch (const std::logic_error&) {
        ++thrown;
      }
    }
    agent.abort();
    return thrown > 0 && lost > 0 && thrown + lost == 2000
               ? std::string()
               : std::to_string(thrown) + " thrown, " + std::to_string(lost) + " lost";
  });
  workers.add([](rpc::Agent& agent) {
    // It goes on, and says why it has given worker 0 up.
    const auto until = Clock::now() + 15s;
    std::string said = "worker 0 is not given up";
    while (said == "worker 0 is not given up" && Clock::now() < until) {
      try {
        (void)agent.rpc_sync({.timeout = 100ms}, 0, bounds_make, std::uint64_t{1});
      } catch (const PeerError& error) {
        said = error.what();
      } catch (const Error&) {  // it is stopped, or much waits for it
      }
      std::this_thread::sleep_for(10ms);
    }
    if (agent.rpc_sync(2, bounds_make, std::uint64_t{3}).size() != 3) said = "it does not go on";
    agent.rpc_sync(2, bounds_stops, -1);
    return said;
  });
  workers.add([](rpc::Agent&) {
    while (stops <= 0) std::this_thread::sleep_for(10ms);
    const int pid = stops;
    while (stops > 0) std::this_thread::sleep_for(10ms);
    ::kill(pid, SIGCONT);
    std::this_thread::sleep_for(300ms);
    return std::string();
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_THAT(workers.report(1), testing::HasSubstr("it reads nothing, and"));
  EXPECT_EQ(workers.report(2), "");
}

/// In contexts that only grow in number, calls are refused at last; and no more when one has gone.
std::string begin_too_many(rpc::Agent& agent) {
  constexpr int most = 65'536;
  std::vector<std::unique_ptr<distributed::Context>> contexts;
  std::vector<Future<rpc::Buffer>> calls;
  for (int i = 0; i < most; ++i) {
    contexts.push_back(std::make_unique<distributed::Context>(agent));
    calls.push_back(agent.rpc_async(1, bounds_make, std::uint64_t{1}));
  }
  for (const auto& call : calls) (void)call.get();
  std::string said = "one too many is not refused";
  contexts.push_back(std::make_unique<distributed::Context>(agent));
  try {
    (void)agent.rpc_sync(1, bounds_make, std::uint64_t{1});
  } catch (const ResourceError& error) {
    said = error.context().missing == std::vector<int>{0} ? "" : error.what();
  }
  while (contexts.size() >= most) contexts.pop_back();
  contexts.push_back(std::make_unique<distributed::Context>(agent));
  (void)agent.rpc_sync(1, bounds_make, std::uint64_t{1});
  while (!contexts.empty()) contexts.pop_back();
  (void)agent.rpc_sync(1, bounds_make, std::uint64_t{1});
  agent.shutdown();
  return said;
}

TEST(RpcBounds, ContextsThatNeverEnd) {
  Workers workers;
  workers.add(begin_too_many);
  workers.add([](rpc::Agent& agent) {
    agent.shutdown();
    const std::size_t left = distributed::Context::count(agent);
    return left == 0 ? std::string() : std::to_string(left) + " are left";
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
}

/// Both send more than any road holds at once, and neither reads for the sake of the other.
TEST(RpcBounds, TwoThatSendMuchToEachOther) {
  for (const char* const path : {"", "^shm"}) {
    Workers workers;
    workers.set_up = [path](int) { ::setenv("HYMN_PATH", path, 1); };
    const auto flood = [](rpc::Agent& agent) -> std::string {
      const int other = 1 - agent.self().rank;
      const auto there = agent.rpc_async(other, bounds_flood, agent.self().rank, 40);
      std::string said;
      if (agent.rpc_sync(agent.self().rank, bounds_flood, other, 40) != 40u << 20 ||
          there.get() != 40u << 20)
        said = "something is missing";
      agent.shutdown();
      return said;
    };
    workers.add(flood);
    workers.add(flood);
    workers.start();
    EXPECT_EQ(workers.report(0), "") << path;
    EXPECT_EQ(workers.report(1), "") << path;
  }
}

}  // namespace
}  // namespace hymn::test
