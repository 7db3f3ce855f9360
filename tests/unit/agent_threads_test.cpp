// A rank's own side of the control plane, used by several threads.
#include <atomic>
#include <condition_variable>
#include <thread>

#include "tests/unit/agent_scene.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;
using ::testing::SizeIs;

/// Stays in a call until it is let go.
class SlowEars : public Ears {
 public:
  void dump_asked(const DumpNow&) override {
    std::unique_lock lock(mutex);
    inside = true;
    changed.notify_all();
    changed.wait(lock, [this] { return may_go; });
    inside = false;
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false;
  bool may_go = false;
};

TEST(AgentThreads, CloseWaitsForThoseWhoAreInACall) {
  auto ears = std::make_unique<SlowEars>();
  Agent agent(0, 2, *ears, [](const Message&) {});
  std::thread caller([&] { agent.receive(DumpNow{"asked"}); });
  {
    std::unique_lock lock(ears->mutex);
    ears->changed.wait(lock, [&] { return ears->inside; });
  }
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    agent.close();
    closed = true;
  });
  // It cannot be proved that it waits; whoever does not is seen by chance.
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(closed);
  {
    std::lock_guard lock(ears->mutex);
    ears->may_go = true;
    ears->changed.notify_all();
  }
  closer.join();
  EXPECT_FALSE(ears->inside);
  ears.reset();
  agent.receive(DumpNow{"again"});
  caller.join();
}

/// Writes what it is told without a lock, as only one thread may.
class NotingEars : public Ears {
 public:
  void peer_changed(const PeerNews&) override { ++calls; }
  std::atomic<int> calls{0};
};

TEST(AgentThreads, ManyMayHearSeeAndAskAtOnce) {
  constexpr int ranks = 64;
  NotingEars ears;
  std::atomic<Agent*> self{nullptr};
  Agent agent(0, ranks, ears, [&](const Message& message) {
    if (const auto* question = std::get_if<Question>(&message))
      for (const int asked : question->asked)
        self.load()->receive(
            Answer{question->id, 0, {.rank = asked, .entered = question->about.uid}});
  });
  self = &agent;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int which = 0; which < 4; ++which)
    threads.emplace_back([&, which] {
      const std::vector<int> asked = {1, 2};
      for (int rank = 3; rank < ranks; ++rank) {
        if (which % 2 == 0)
          agent.receive(News{{.rank = rank, .state = PeerState::dead}});
        else
          agent.sight({.rank = rank, .state = PeerState::dead});
        for (const ProgressReport& report : agent.ask(static_cast<std::uint64_t>(which), asked, 1h))
          if (report.entered == static_cast<std::uint64_t>(which)) ++answered;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ears.calls, ranks - 3) << "each is told once";
  EXPECT_EQ(answered, 4 * (ranks - 3) * 2);
  EXPECT_THAT(agent.all_news(), SizeIs(ranks - 3));
}

}  // namespace
}  // namespace hymn::test
