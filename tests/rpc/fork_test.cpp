// A child made by fork() has a copy of what its parent's agent is made of, but not its threads, nor
// the memory that it shares with others: it is told so, and touches nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "hymn/rpc_context.hpp"
#include "tests/rpc/worker_processes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const auto fork_make = rpc::register_function("fork.make", [](int value) { return value; });
const auto fork_sleep =
    rpc::register_function("fork.sleep", [] { std::this_thread::sleep_for(300ms); });

/// What is wrong: nothing where it is refused as a child is.
std::string refused(const char* what, const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    const bool says_so = std::string(error.what()).find("child made by fork()") < std::string::npos;
    return says_so ? "" : std::string(what) + ": " + error.what() + "; ";
  } catch (const std::exception& error) {
    return std::string(what) + ": another error: " + error.what() + "; ";
  }
  return std::string(what) + " is not refused; ";
}

/// What the parent has when it forks.
struct Held {
  explicit Held(rpc::Agent& agent)
      : theirs(agent.remote(1, fork_make, 7)),
        own(agent.make_ref(8)),
        late(agent.rpc_async(1, fork_sleep)) {
    (void)theirs.to_here();
    context.emplace(agent);
  }

  rpc::RemoteRef<int> theirs;
  rpc::RemoteRef<int> own;
  Future<void> late;
  std::optional<distributed::Context> context{};
};

std::string calls_in_child(rpc::Agent& agent, Held& held) {
  std::string said;
  const auto try_all = [&](const char* what, const auto& call) { said += refused(what, call); };
  try_all("rpc_sync", [&] { agent.rpc_sync(1, fork_make, 1); });
  try_all("rpc_sync to itself", [&] { agent.rpc_sync(0, fork_make, 1); });
  try_all("remote", [&] { (void)agent.remote(1, fork_make, 1); });
  try_all("make_ref", [&] { (void)agent.make_ref(1); });
  try_all("to_here", [&] { held.theirs.to_here(); });
  try_all("owner", [&] { (void)held.theirs.owner(); });
  try_all("local_value", [&] { (void)held.own.local_value(); });
  try_all("a call of before", [&] { held.late.get(); });
  try_all("a new context", [&] { distributed::Context again(agent); });
  try_all("use", [&] { (void)agent.use(); });
  try_all("shutdown", [&] { agent.shutdown(); });
  try_all("abort", [&] { agent.abort(); });
  return said;
}

/// Calls, drops all, and makes an agent of its own.
std::string as_child(rpc::Agent& agent, std::unique_ptr<Held> held) {
  std::string said = calls_in_child(agent, *held);
  held = nullptr;
  {
    const rpc::Agent dropped = std::move(agent);
  }
  rpc::Agent own = rpc::Agent::over(std::make_shared<HashStore>(), "alone", 0, 1);
  if (own.rpc_sync(0, fork_make, 3) != 3) said += "its own agent does not work; ";
  own.shutdown();
  return said;
}

int sockets_here() {
  return static_cast<int>(std::ranges::count_if(
      std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
        std::error_code gone;
        return std::filesystem::read_symlink(entry, gone).string().starts_with("socket:");
      }));
}

std::string parent(rpc::Agent& agent) {
  auto held = std::make_unique<Held>(agent);
  const int sockets = sockets_here();
  Child child([&] {
    const std::string said = sockets_here() < sockets ? "" : "its parent's connection is open; ";
    return said + as_child(agent, std::move(held));
  });
  std::string said = child.report();
  held->late.get();
  if (agent.use().held_refs != 1 || agent.use().owned_values != 1) said += "a reference has gone; ";
  if (held->theirs.to_here() != 7 || held->own.local_value() != 8) said += "a value has gone; ";
  if (distributed::Context::count(agent) != 1) said += "the context has gone; ";
  held = nullptr;
  agent.shutdown();
  return said;
}

TEST(RpcFork, AChildTouchesNothingOfItsParents) {
  for (const char* const path : {"", "^shm"}) {
    Workers workers;
    workers.set_up = [path](int) { ::setenv("HYMN_PATH", path, 1); };
    workers.add(parent);
    workers.add(serve);
    workers.start();
    EXPECT_EQ(workers.report(0), "") << path;
    EXPECT_EQ(workers.report(1), "") << path;
  }
}

}  // namespace
}  // namespace hymn::test
