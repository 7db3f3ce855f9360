// Ranks that shrink a group time and again while the coordinator that settles it is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/unit/agent_scene.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;

constexpr int ranks = 3;
// What each says at least in the calls below: seven calls, and a rejection.
constexpr int least_messages = 8 * ranks;

/// Two coordinators and those who speak with one of them. What is said to or by a coordinator that
/// is lost goes astray.
class Handover {
 public:
  Handover() {
    for (int index = 0; index < 2; ++index)
      coordinators_.push_back(
          std::make_unique<Coordinator>(ranks, CoordinatorOptions{.index = index},
                                        [this, index](int rank, const Message& message) {
                                          if (at_[place(rank)] == index)
                                            agents_[place(rank)]->receive(message);
                                        }));
    for (int rank = 0; rank < ranks; ++rank) {
      agents_.push_back(
          std::make_unique<Agent>(rank, ranks, ears_[place(rank)],
                                  [this, rank](const Message& message) { send(rank, message); }));
      coordinators_[0]->join(rank, steady_clock().now());
    }
  }

  Agent& agent(int rank) { return *agents_[place(rank)]; }
  /// Once so many messages have been sent; then those ranks find the next one in this order.
  void lose_first_after(int messages, std::array<int, ranks> order) {
    while (sent_ < messages) std::this_thread::yield();
    {
      const std::lock_guard lock(mutex_);
      at_.fill(nowhere);
    }
    for (const int rank : order) {
      {
        const std::lock_guard lock(mutex_);
        at_[place(rank)] = 1;
        coordinators_[1]->join(rank, steady_clock().now());
      }
      agent(rank).reached_coordinator(1);
      std::this_thread::yield();
    }
  }

 private:
  static constexpr int nowhere = -1;

  static std::size_t place(int rank) { return static_cast<std::size_t>(rank); }
  void send(int rank, const Message& message) {
    const std::lock_guard lock(mutex_);
    ++sent_;
    if (const int index = at_[place(rank)]; index != nowhere)
      coordinators_[place(index)]->receive(rank, message, steady_clock().now());
  }

  std::mutex mutex_;
  std::array<int, ranks> at_{};  ///< the coordinator of each
  std::atomic<int> sent_{0};
  std::array<Ears, ranks> ears_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
  std::vector<std::unique_ptr<Agent>> agents_;
};

/// Each rank's new groups: each is confirmed, then used to make the next, and the first group is
/// shrunk once more in the end.
std::vector<std::uint64_t> shrink_often(Agent& agent, const Patience& patience) {
  const std::vector<int> members = {0, 1, 2};
  std::vector<std::uint64_t> groups = {7};
  for (int i = 0; i < 3; ++i) {
    const auto verdict = agent.shrink(groups.back(), members, patience);
    if (!verdict || !agent.confirm(verdict->new_uid, members, patience)) return {};
    groups.push_back(verdict->new_uid);
  }
  if (const auto verdict = agent.shrink(7, members, patience)) groups.push_back(verdict->new_uid);
  return groups;
}

// A verdict that all have used is not the one on their next call, wherever those who still know it
// tell of it.
TEST(ShrinkHandover, AllHaveTheSameGroupsWheneverTheCoordinatorIsLost) {
  std::array<int, ranks> order = {0, 1, 2};
  for (int messages = 0; messages < least_messages; ++messages) {
    do {
      Handover scene;
      std::array<std::vector<std::uint64_t>, ranks> groups;
      const Patience patience{.deadline = Deadline(steady_clock().now() + 20s),
                              .clock = &steady_clock(),
                              .purpose = "a test"};
      {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
          threads.emplace_back([&, rank] {
            groups[static_cast<std::size_t>(rank)] = shrink_often(scene.agent(rank), patience);
          });
        scene.lose_first_after(messages, order);
      }
      for (const auto& of_rank : groups) {
        ASSERT_EQ(of_rank.size(), 5u) << "lost after " << messages << " messages";
        ASSERT_EQ(of_rank, groups[0]) << "lost after " << messages << " messages";
      }
      const std::set<std::uint64_t> different(groups[0].begin(), groups[0].end());
      ASSERT_EQ(different.size(), 5u) << "lost after " << messages << " messages";
    } while (std::ranges::next_permutation(order).found);
  }
}

}  // namespace
}  // namespace hymn::test
