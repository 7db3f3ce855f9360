// A callee that is killed, or stopped, or whose link is cut, in each phase of a call, by every road
// that messages take: callers hear of it within their limit, nothing is kept for ever, all end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/descriptor.hpp"
#include "tests/rpc/worker_processes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

enum class Fault { kill, stop, cut };
enum class Road { shared_memory, local_socket, tcp };
/// Where the call is when it happens.
enum class Phase {
  before_it,      ///< not made yet
  request_waits,  ///< partly sent: the callee reads nothing
  carried_out,
  answer_waits,  ///< partly sent: the caller reads nothing
  between,       ///< references are held
  shutting_down,
};

constexpr std::size_t large_bytes = std::size_t{8} << 20;
constexpr Duration limit = std::chrono::milliseconds(500);
constexpr int long_ms = 900;  ///< of a call that does not end within that

const auto phase_pid = rpc::register_function("phase.pid", [] { return int{::getpid()}; });
const auto phase_size = rpc::register_function(
    "phase.size", [](const rpc::Buffer& given) { return std::uint64_t{given.size()}; });
const auto phase_sleep = rpc::register_function(
    "phase.sleep", [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
const auto phase_make =
    rpc::register_function("phase.make", [](std::uint64_t bytes) { return rpc::Buffer(bytes); });
const auto phase_list =
    rpc::register_function("phase.list", [](int size) { return std::vector<int>(size, 7); });

/// As a network might: all connections of this process, whatever they belong to.
void cut_links() {
  std::vector<Descriptor> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    Descriptor one(::fcntl(std::stoi(entry.path().filename()), F_DUPFD_CLOEXEC, 0));
    if (one) found.push_back(std::move(one));
  }
  for (const Descriptor& each : found) ::shutdown(each.number(), SHUT_RDWR);
}

/// In the caller, of which `pid` is the callee.
void let_happen(Fault fault, int pid) {
  switch (fault) {
    case Fault::kill:
      ::kill(pid, SIGKILL);
      return;
    case Fault::stop:
      ::kill(pid, SIGSTOP);
      return;
    case Fault::cut:
      cut_links();
      return;
  }
}

void take_road(Road road) {
  switch (road) {
    case Road::shared_memory:
      return;
    case Road::local_socket:
      ::setenv("HYMN_PATH", "^shm", 1);
      return;
    case Road::tcp:
      ::setenv("HYMN_PATH", "^shm", 1);
      ::setenv("HYMN_INTERFACE", "lo", 1);
      return;
  }
}

/// What it says of a call that must not be answered, but end in time with an error that names the
/// callee, rank 1.
std::string failure_of(const std::function<void()>& call, Fault fault) {
  const auto started = Clock::now();
  const auto judge = [&](const Error& error, bool is_kind) -> std::string {
    if (!is_kind) return std::string("another error: ") + error.what();
    if (error.context().missing != std::vector<int>{1}) return error.what();
    if (Clock::now() - started > limit + 4s) return "it took too long";
    return "";
  };
  try {
    call();
    return "the call was answered";
  } catch (const Error& error) {
    const bool is_late = dynamic_cast<const TimeoutError*>(&error) != nullptr;
    const bool is_lost = dynamic_cast<const PeerError*>(&error) != nullptr;
    return judge(error, fault == Fault::stop ? is_late : is_lost);
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
}

/// Runs it while the call is on its way.
class Meanwhile {
 public:
  Meanwhile(Duration after, const std::function<void()>& what)
      : thread_([after, what] {
          std::this_thread::sleep_for(after);
          what();
        }) {}
  ~Meanwhile() { thread_.join(); }

 private:
  std::thread thread_;
};

class Caller {
 public:
  Caller(rpc::Agent& agent, Fault fault) : agent_(agent), fault_(fault) {}

  std::string pass_through(Phase phase) {
    pid_ = agent_.rpc_sync(1, phase_pid);
    std::string said = run(phase);
    if (said.empty()) said = find_leftovers();
    if (fault_ == Fault::stop) ::kill(pid_, SIGCONT);
    agent_.shutdown(15s);
    return said;
  }

 private:
  void happen() { let_happen(fault_, pid_); }
  /// And is known: a signal takes a moment, and so does the end of a connection.
  void happen_before() {
    happen();
    std::this_thread::sleep_for(30ms);
  }
  std::string run(Phase phase) {
    switch (phase) {
      case Phase::before_it:
        happen_before();
        return fail([&] { agent_.rpc_sync({.timeout = limit}, 1, phase_pid); });
      case Phase::request_waits:
        return fail_while_sending();
      case Phase::carried_out:
        return fail_after(50ms,
                          [&] { agent_.rpc_sync({.timeout = limit}, 1, phase_sleep, long_ms); });
      case Phase::answer_waits:
        return fail_while_answered();
      case Phase::between:
        return fail_with_references();
      case Phase::shutting_down:
        return end_with_call();
    }
    return "no phase";
  }
  std::string fail(const std::function<void()>& call) { return failure_of(call, fault_); }
  std::string fail_after(Duration after, const std::function<void()>& call) {
    const Meanwhile fault(after, [this] { happen(); });
    return fail(call);
  }
  std::string fail_while_sending() {
    ::kill(pid_, SIGSTOP);
    const rpc::Buffer large(large_bytes);
    const auto call = agent_.rpc_async({.timeout = limit}, 1, phase_size, large);
    std::this_thread::sleep_for(30ms);
    happen();
    std::string said = fail([&] { (void)call.get(); });
    if (fault_ == Fault::cut) ::kill(pid_, SIGCONT);
    return said;
  }
  /// Answers of which each is more than a road holds come while others are read.
  std::string fail_while_answered() {
    std::vector<Future<rpc::Buffer>> calls;
    for (int i = 0; i < 64; ++i)
      calls.push_back(
          agent_.rpc_async({.timeout = limit}, 1, phase_make, std::uint64_t{large_bytes}));
    const Meanwhile fault(20ms, [this] { happen(); });
    for (const auto& call : calls) {
      try {
        (void)call.get();
      } catch (...) {
        return fail([&] { (void)call.get(); });
      }
    }
    return "all were answered before it happened";
  }
  std::string fail_with_references() {
    const auto there = agent_.remote({.timeout = limit}, 1, phase_list, 3);
    const auto here = agent_.make_ref(std::vector<int>{1});
    if (there.to_here().size() != 3) return "another list";
    happen_before();
    return fail([&] { (void)there.to_here(limit); });
  }
  /// What is in flight then, ends; and so does the shutdown.
  std::string end_with_call() {
    const auto call = agent_.rpc_async({.timeout = limit}, 1, phase_sleep, long_ms);
    const Meanwhile fault(50ms, [this] { happen(); });
    const Meanwhile going_on(limit + 300ms, [this] {
      if (fault_ == Fault::stop) ::kill(pid_, SIGCONT);
    });
    agent_.shutdown(15s);
    return fail([&] { call.get(); });
  }
  std::string find_leftovers() {
    for (int i = 0; i < 300; ++i) {
      const rpc::AgentUse use = agent_.use();
      if (use.calls == 0 && use.held_refs == 0 && use.owned_values == 0) return "";
      std::this_thread::sleep_for(10ms);
    }
    return "something is kept";
  }

  rpc::Agent& agent_;
  Fault fault_;
  int pid_ = 0;
};

std::string end_somehow(rpc::Agent& agent) {
  agent.shutdown(15s);
  return "";
}

using Case = std::tuple<Road, Phase, Fault>;

class RpcPhases : public testing::TestWithParam<Case> {};

TEST_P(RpcPhases, CallersHearOfIt) {
  const auto [road, phase, fault] = GetParam();
  Workers workers;
  workers.set_up = [taken = road](int) { take_road(taken); };
  workers.add([&](rpc::Agent& agent) {
    const std::string by = agent.explain(1);
    if ((by == "shared memory") != (road == Road::shared_memory)) return "messages go by " + by;
    return Caller(agent, fault).pass_through(phase);
  });
  workers.add(end_somehow);
  workers.add(end_somehow);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  if (fault != Fault::kill) {
    EXPECT_EQ(workers.report(1), "");
  }
  EXPECT_EQ(workers.report(2), "");
}

std::string name_of(const testing::TestParamInfo<Case>& one) {
  static const char* const roads[] = {"SharedMemory", "LocalSocket", "Tcp"};
  static const char* const phases[] = {"BeforeIt",    "RequestWaits", "CarriedOut",
                                       "AnswerWaits", "Between",      "ShuttingDown"};
  static const char* const faults[] = {"Killed", "Stopped", "Cut"};
  const auto [road, phase, fault] = one.param;
  return std::string(roads[static_cast<int>(road)]) + phases[static_cast<int>(phase)] +
         faults[static_cast<int>(fault)];
}

INSTANTIATE_TEST_SUITE_P(
    By, RpcPhases,
    testing::Combine(testing::Values(Road::shared_memory, Road::local_socket, Road::tcp),
                     testing::Values(Phase::before_it, Phase::request_waits, Phase::carried_out,
                                     Phase::answer_waits, Phase::between, Phase::shutting_down),
                     testing::Values(Fault::kill, Fault::stop, Fault::cut)),
    name_of);

}  // namespace
}  // namespace hymn::test
