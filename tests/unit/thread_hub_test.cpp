// Messages and boards of ranks that are threads.
#include "p2p/threads/thread_hub.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "p2p/shm/heap_region.hpp"
#include "p2p/threads/thread_board.hpp"

namespace hymn::test {
namespace {

std::vector<std::byte> message_of(std::uint64_t value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::uint64_t value_of(const ExchangeMessage& message) {
  std::uint64_t value = 0;
  EXPECT_EQ(message.bytes.size(), sizeof value);
  std::memcpy(&value, message.bytes.data(), sizeof value);
  return value;
}

/// The next value that `rank` can take, or -1.
int take(ThreadHub& hub, int rank, int from, std::uint64_t tag) {
  const auto message = hub.take(rank, from, tag);
  return message ? static_cast<int>(value_of(*message)) : -1;
}

TEST(ThreadHub, KeepsTheOrderOfASenderAndTag) {
  ThreadHub hub(2);
  for (std::uint64_t i = 0; i < 100; ++i) hub.deliver(1, i % 2, {0, message_of(i)});
  for (int i = 1; i < 100; i += 2) EXPECT_EQ(take(hub, 1, 0, 1), i);
  for (int i = 0; i < 100; i += 2) EXPECT_EQ(take(hub, 1, 0, 0), i);
  EXPECT_EQ(take(hub, 1, 0, 0), -1);
  EXPECT_EQ(take(hub, 1, 0, 1), -1);
}

TEST(ThreadHub, TellsReceiversSendersAndTagsApart) {
  ThreadHub hub(3);
  hub.deliver(2, 9, {0, message_of(10)});
  hub.deliver(2, 9, {1, message_of(11)});
  hub.deliver(0, 9, {1, message_of(12)});
  EXPECT_EQ(take(hub, 2, 0, 8), -1);
  EXPECT_EQ(take(hub, 1, 0, 9), -1);
  EXPECT_EQ(take(hub, 2, 2, 9), -1);
  EXPECT_EQ(take(hub, 2, 1, 9), 11);  // out of the order in which they came
  EXPECT_EQ(take(hub, 2, 0, 9), 10);
  EXPECT_EQ(take(hub, 0, Exchange::from_anyone, 9), 12);
}

TEST(ThreadHub, FromAnyoneTakesTheFirstAndTellsWhoSentIt) {
  ThreadHub hub(3);
  hub.deliver(0, 1, {2, message_of(20)});
  hub.deliver(0, 1, {1, message_of(21)});
  const auto first = hub.take(0, Exchange::from_anyone, 1);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->source, 2);
  EXPECT_EQ(take(hub, 0, Exchange::from_anyone, 1), 21);
}

TEST(ThreadHub, AbortReleasesButLosesNothingThatHasCome) {
  ThreadHub hub(2);
  hub.deliver(1, 1, {0, message_of(1)});
  EXPECT_FALSE(hub.is_aborted());
  hub.abort("first reason");
  hub.abort("second reason");
  EXPECT_TRUE(hub.is_aborted());
  EXPECT_EQ(take(hub, 1, 0, 1), 1);
  try {
    hub.take(1, 0, 1);
    FAIL() << "nothing is thrown";
  } catch (const AbortedError& error) {
    EXPECT_STREQ(error.what(), "first reason");
  }
  EXPECT_THROW(hub.deliver(1, 1, {0, {}}), AbortedError);
}

TEST(ThreadHub, BoardsLiveAsLongAsTheirMembersHoldThem) {
  ThreadHub hub(2);
  const auto first = hub.board(4, 2);
  EXPECT_EQ(hub.board(4, 2), first);
  EXPECT_NE(hub.board(5, 2), first);
  std::weak_ptr<ThreadBoard> old = hub.board(6, 2);
  EXPECT_TRUE(old.expired());
  EXPECT_NE(hub.board(6, 2), nullptr);  // made anew
}

TEST(ThreadHub, AbortEndsBoardsOfBeforeAndAfter) {
  ThreadHub hub(2);
  const auto before = hub.board(1, 2);
  hub.abort("a rank has failed");
  const auto after = hub.board(2, 2);
  for (const auto& board : {before, after}) {
    ThreadBoard::Visit visit(*board, 0, 1, nullptr);
    EXPECT_THROW(visit.try_arrive(), AbortedError);
  }
}

TEST(ThreadHub, AbortTellsOwnersThatAreThere) {
  ThreadHub hub(2);
  std::vector<std::string> told;
  const auto tell = [&told](std::string who) {
    return [&told, who = std::move(who)](const std::string& reason) {
      told.push_back(who + ": " + reason);
    };
  };
  const auto owner = std::make_shared<int>();
  hub.at_abort(owner, tell("before"));
  hub.at_abort(std::make_shared<int>(), tell("gone"));
  hub.abort("a rank has failed");
  EXPECT_EQ(told, std::vector<std::string>{"before: a rank has failed"});
  hub.at_abort(owner, tell("after"));
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(told.back(), "after: a rank has failed");
}

TEST(ThreadHub, ForgetsWhatNobodyHolds) {
  ThreadHub hub(2);
  RegionPlan plan;
  plan.add(64, RegionPlan::Reserve::at_once);
  struct Group {
    std::shared_ptr<ThreadBoard> board;
    std::shared_ptr<HeapMemory> memory;
  };
  const auto open = [&](std::uint64_t uid) {
    auto group = std::make_shared<Group>(
        Group{hub.board(uid, 2), hub.memory("group " + std::to_string(uid), plan, 2)});
    for (int rank = 0; rank < hub.size(); ++rank) hub.at_abort(group, [](const std::string&) {});
    return group;
  };
  const auto lasting = open(0);
  const std::size_t of_one = hub.known();
  EXPECT_EQ(of_one, 4u);
  for (std::uint64_t uid = 1; uid < 100; ++uid) {
    open(uid);
    EXPECT_LE(hub.known(), 2 * of_one);
  }
  EXPECT_EQ(hub.board(0, 2), lasting->board);
  EXPECT_EQ(hub.memory("group 0", plan, 2), lasting->memory);
}

TEST(ThreadHub, ManyThreadsAtOnce) {
  constexpr int ranks = 4;
  constexpr std::uint64_t messages = 500;
  const auto hub = std::make_shared<ThreadHub>(ranks);
  std::vector<int> wrong(ranks, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadExchange exchange(hub, rank);
      for (std::uint64_t i = 0; i < messages; ++i)
        for (int to = 0; to < ranks; ++to) exchange.send(to, i % 3, message_of(i));
      for (int from = 0; from < ranks; ++from) {
        for (std::uint64_t i = 0; i < messages; ++i) {
          std::optional<ExchangeMessage> message;
          while (!(message = exchange.try_receive(from, i % 3))) std::this_thread::yield();
          if (message->source != from || value_of(*message) != i)
            ++wrong[static_cast<std::size_t>(rank)];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(ranks, 0));
}

}  // namespace
}  // namespace hymn::test
