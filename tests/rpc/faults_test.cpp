// Workers that are processes, some of which die or stand still.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "tests/rpc/worker_processes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const auto echo = rpc::register_function("fault.echo", [](int value) { return value; });
const auto sleep_long = rpc::register_function(
    "fault.sleep", [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
const auto end_here = rpc::register_function("fault.end", [] { ::raise(SIGKILL); });
const auto make_text =
    rpc::register_function("fault.text", [](const std::string& text) { return text; });
const auto read_text = rpc::register_function(
    "fault.read", [](const rpc::RemoteRef<std::string>& text) { return text.local_value(); });
const auto take_ref =
    rpc::register_function("fault.take", [](const rpc::RemoteRef<std::string>&) {});
const auto pid_here = rpc::register_function("fault.pid_here", [] { return int{::getpid()}; });
std::atomic<int> orphans_refused{0};
/// Ends who has asked for the value before the owner hears of that.
const auto use_orphan = rpc::register_function(
    "fault.orphan", [](const rpc::RemoteRef<std::string>& text, int creator, int owner) {
      ::kill(creator, SIGKILL);
      ::kill(owner, SIGCONT);
      try {
        rpc::Agent::current().rpc_sync(text.owner(), read_text, text);
      } catch (const PeerError&) {
        ++orphans_refused;
      }
    });
/// Lets the owner go on when it has much to read, and uses the value when all else is settled.
const auto use_later =
    rpc::register_function("fault.later", [](const rpc::RemoteRef<std::string>& text, int owner) {
      ::kill(owner, SIGCONT);
      std::this_thread::sleep_for(400ms);
      return static_cast<int>(rpc::Agent::current().rpc_sync(text.owner(), read_text, text).size());
    });
/// Its handle goes with the call, before the value is there.
const auto size_later =
    rpc::register_function("fault.size_later", [](const rpc::RemoteRef<std::string>& text) {
      return text.to_here_async().then(
          [](const std::string& copy) { return static_cast<int>(copy.size()); });
    });
/// Through a worker between.
const auto end_behind = rpc::register_function(
    "fault.end_behind", [](int rank) { rpc::Agent::current().rpc_sync(rank, end_here); });

TEST(RpcFaults, ACalleeThatDiesFailsItsCallsAtOnce) {
  Workers workers;
  workers.add([](rpc::Agent& agent) {
    const auto other = agent.rpc_async(1, sleep_long, 10'000);
    std::string said = lost_soon([&] { agent.rpc_sync(1, end_here); }, 1);
    if (said.empty()) said = lost_soon([&] { other.get(); }, 1);
    // And all that come after it.
    if (said.empty()) said = lost_soon([&] { agent.rpc_sync(1, echo, 1); }, 1);
    if (said.empty() && agent.rpc_sync(2, echo, 5) != 5) said = "others are not reached";
    agent.shutdown();
    return said;
  });
  workers.add(serve);
  workers.add(serve);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(2), "");
}

TEST(RpcFaults, TheErrorNamesWhoDiedBehindAnother) {
  Workers workers;
  workers.add([](rpc::Agent& agent) {
    const std::string said = lost_soon([&] { agent.rpc_sync(1, end_behind, 2); }, 2);
    agent.shutdown();
    return said;
  });
  workers.add(serve);
  workers.add(serve);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
}

TEST(RpcFaults, ACalleeThatStandsStillCostsTheLimit) {
  Workers workers;
  Wire ready;
  workers.add([&](rpc::Agent& agent) -> std::string {
    const int pid = agent.rpc_sync<int>(1, "fault.pid");
    ::kill(pid, SIGSTOP);
    std::string said;
    const auto started = Clock::now();
    // More than sockets hold: nobody waits for them to be taken.
    std::vector<Future<std::string>> calls;
    for (int i = 0; i < 16; ++i)
      calls.push_back(agent.rpc_async({.timeout = 300ms}, 1, make_text,
                                      std::string(std::size_t{1} << 20, 'x')));
    for (const auto& call : calls) {
      try {
        (void)call.get();
        said = "the call was answered";
      } catch (const TimeoutError& error) {
        if (error.context().missing != std::vector<int>{1}) said = error.what();
      }
    }
    if (Clock::now() - started > 3s) said = "it took too long";
    ::kill(pid, SIGCONT);
    if (agent.rpc_sync(1, echo, 7) != 7) said = "it is not reached again";
    agent.shutdown();
    return said;
  });
  workers.add(serve);
  static const auto pid = rpc::register_function("fault.pid", [] { return int{::getpid()}; });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
}

TEST(RpcFaults, ReferencesOfTheDeadAreForgotten) {
  Workers workers;
  workers.add([](rpc::Agent& agent) -> std::string {
    {
      auto text = agent.make_ref(std::string("kept"));
      agent.rpc_sync(1, take_ref, text);
      (void)agent.rpc_async(1, sleep_long, 10'000);
      (void)lost_soon([&] { agent.rpc_sync(1, end_here); }, 1);
    }
    for (int i = 0; i < 300 && agent.use().owned_values > 0; ++i) std::this_thread::sleep_for(10ms);
    const std::string said = agent.use().owned_values > 0 ? "a value is still kept" : "";
    agent.shutdown();
    return said;
  });
  workers.add([](rpc::Agent& agent) {
    const auto mine = agent.remote(0, make_text, std::string("of one who dies"));
    agent.shutdown();
    return mine.to_here();
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
}

TEST(RpcFaults, AReferenceWhoseOwnerHasDiedSaysSo) {
  Workers workers;
  workers.add([](rpc::Agent& agent) {
    std::string said;
    {
      const auto text = agent.remote(1, make_text, std::string("gone"));
      if (text.to_here() != "gone") said = "the value was another one";
      (void)lost_soon([&] { agent.rpc_sync(1, end_here); }, 1);
      if (said.empty()) said = lost_soon([&] { (void)text.to_here(); }, 1);
      if (said.empty()) said = lost_soon([&] { agent.rpc_sync(2, take_ref, text); }, -1);
      if (said == "the call was answered") said = "";  // what nobody reads may be passed on
    }
    if (said.empty() && agent.use().held_refs != 0) said = "a reference is still held";
    agent.shutdown();
    return said;
  });
  workers.add(serve);
  workers.add(serve);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(2), "");
}

/// The call that makes it was lost with who has made it, the reference was not.
TEST(RpcFaults, AValueThatIsNeverMadeIsNotWaitedFor) {
  Workers workers;
  workers.add(serve);
  workers.add([](rpc::Agent& agent) -> std::string {
    for (int i = 0; i < 500 && orphans_refused == 0; ++i) std::this_thread::sleep_for(10ms);
    if (orphans_refused == 0) return "the value is waited for";
    agent.shutdown();
    return "";
  });
  workers.add([](rpc::Agent& agent) -> std::string {
    const int owner = agent.rpc_sync(0, pid_here);
    ::kill(owner, SIGSTOP);
    const auto text = agent.remote(0, make_text, std::string(std::size_t{16} << 20, 'x'));
    agent.rpc_sync(1, use_orphan, text, int{::getpid()}, owner);
    return "it has not died";
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
}

/// The owner hears of the third worker before the call has come that makes the value.
TEST(RpcFaults, AReferenceThatOvertakesItsCallIsKept) {
  Workers workers;
  workers.add(serve);
  workers.add(serve);
  workers.add([](rpc::Agent& agent) -> std::string {
    const int owner = agent.rpc_sync(0, pid_here);
    ::kill(owner, SIGSTOP);
    auto text = agent.remote(0, make_text, std::string(std::size_t{16} << 20, 'x'));
    const auto size = agent.rpc_async(1, use_later, text, owner);
    text = {};
    const std::string said = size.get() == 16 << 20 ? "" : "the text was another one";
    agent.shutdown();
    return said;
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
  EXPECT_EQ(workers.report(2), "");
}

/// The same, and nobody holds it any more when the call comes, but somebody waits for a copy.
TEST(RpcFaults, ACopyIsGivenOfAReferenceThatHasGone) {
  Workers workers;
  workers.add(serve);
  workers.add(serve);
  workers.add([](rpc::Agent& agent) -> std::string {
    const int owner = agent.rpc_sync(0, pid_here);
    ::kill(owner, SIGSTOP);
    const auto text = agent.remote(0, make_text, std::string(std::size_t{16} << 20, 'x'));
    const auto size = agent.rpc_async(1, size_later, text);
    std::this_thread::sleep_for(200ms);
    ::kill(owner, SIGCONT);
    const std::string said = size.get() == 16 << 20 ? "" : "the text was another one";
    agent.shutdown();
    return said;
  });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(1), "");
  EXPECT_EQ(workers.report(2), "");
}

/// What is chained to calls waits for others that fail with them.
TEST(RpcFaults, FailuresAreWaitedForByEachOther) {
  Workers workers;
  workers.options.threads = 64;
  workers.add([](rpc::Agent& agent) -> std::string {
    static std::atomic<int> ended{0};
    std::vector<Future<void>> calls;
    for (int i = 0; i < 30; ++i) calls.push_back(agent.rpc_async(1, sleep_long, 10'000));
    for (std::size_t i = 0; i < calls.size(); ++i)
      calls[i].on_ready([other = calls[(i * 7 + 3) % calls.size()]] {
        try {
          other.get();
        } catch (const PeerError&) {
          ++ended;
        }
      });
    (void)agent.rpc_async(1, end_here);
    for (int i = 0; i < 500 && ended < 30; ++i) std::this_thread::sleep_for(10ms);
    if (ended < 30) return "only " + std::to_string(ended) + " have ended";
    agent.shutdown();
    return "";
  });
  workers.add(serve);
  workers.start();
  EXPECT_EQ(workers.report(0), "");
}

TEST(RpcFaults, WhoNeverEndsIsNamed) {
  Workers workers;
  const auto end = [](rpc::Agent& agent, Duration limit) -> std::string {
    try {
      agent.shutdown(limit);
      return "it has ended without the other";
    } catch (const TimeoutError& error) {
      return error.context().missing == std::vector<int>{1} ? "" : error.what();
    }
  };
  workers.add([&](rpc::Agent& agent) { return end(agent, 900ms); });
  workers.add([](rpc::Agent&) {
    std::this_thread::sleep_for(1500ms);
    return "";
  });
  // Who does not ask the others knows it as well.
  workers.add([&](rpc::Agent& agent) { return end(agent, 500ms); });
  workers.start();
  EXPECT_EQ(workers.report(0), "");
  EXPECT_EQ(workers.report(2), "");
}

/// Kills at random moments: calls end, with the right rank, and so does every survivor's end.
TEST(RpcFaults, CampaignOfKills) {
  const char* const wanted = std::getenv("RPC_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 12;
  std::mt19937 random(7);
  for (int round = 0; round < kills; ++round) {
    Workers workers;
    const auto caller = [](rpc::Agent& agent) {
      std::string said;
      const int victim = 2;
      const auto until = Clock::now() + 5s;
      bool is_lost = false;
      for (int i = 0; !is_lost && said.empty(); ++i) {
        if (Clock::now() > until) said = "nobody has died";
        try {
          const auto text = agent.remote(victim, make_text, std::string("text"));
          const auto calls = {agent.rpc_async(victim, echo, i), agent.rpc_async(victim, echo, i)};
          if (agent.rpc_sync(1 - agent.self().rank, echo, i) != i) said = "a wrong answer";
          if (agent.rpc_sync(victim, read_text, text) != "text") said = "a wrong text";
          for (const auto& call : calls)
            if (call.get() != i) said = "a wrong answer of the victim's";
        } catch (const PeerError& error) {
          is_lost = true;
          if (error.context().missing != std::vector<int>{victim}) said = error.what();
        } catch (const std::exception& error) {
          said = error.what();
        }
      }
      agent.shutdown(10s);
      return said;
    };
    workers.add(caller);
    workers.add(caller);
    const Wire ready;
    workers.add([&](rpc::Agent& agent) {
      ready.send("it is there");
      std::this_thread::sleep_for(20s);
      return agent.self().name;
    });
    workers.start();
    (void)ready.receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 120));
    workers.child(2).kill();
    EXPECT_EQ(workers.report(0), "") << "round " << round;
    EXPECT_EQ(workers.report(1), "") << "round " << round;
  }
}

}  // namespace
}  // namespace hymn::test
