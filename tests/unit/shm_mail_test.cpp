// Sends and receives over rings: matching, order, what comes before it is asked for.
#include "p2p/shm/shm_mail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/sanitizers.hpp"
#include "hymn/error.hpp"
#include "hymn/request.hpp"
#include "tests/unit/shm_office.hpp"

namespace hymn::test {
namespace {

std::vector<std::byte> message_of(std::size_t seed, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(seed * 17 + i * 5 + i / 241);
  return bytes;
}

/// A send and its data.
struct Letter {
  Letter(int to, std::uint64_t tag, std::vector<std::byte> bytes) : data(std::move(bytes)) {
    sending.to = to;
    sending.tag = tag;
    sending.data = data.data();
    sending.bytes = data.size();
  }
  std::vector<std::byte> data;
  Sending sending;
};

struct Receipt {
  Receipt(int from, std::uint64_t tag, std::size_t room) : data(room) {
    receiving.from = from;
    receiving.tag = tag;
    receiving.data = data.data();
    receiving.room = room;
  }
  std::vector<std::byte> got() const {
    return {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(receiving.bytes)};
  }
  std::vector<std::byte> data;
  Receiving receiving;
};

void wait_until(const std::function<bool()>& done) {
  while (!done()) std::this_thread::yield();
}

void send(ShmMail& mail, int to, std::uint64_t tag, std::vector<std::byte> bytes) {
  Letter letter(to, tag, std::move(bytes));
  mail.start(letter.sending);
  wait_until([&] { return mail.step(letter.sending); });
}

std::vector<std::byte> receive(ShmMail& mail, int from, std::uint64_t tag, std::size_t room,
                               int* source = nullptr) {
  Receipt awaited(from, tag, room);
  mail.start(awaited.receiving);
  wait_until([&] { return mail.step(awaited.receiving); });
  if (source != nullptr) *source = awaited.receiving.source;
  return awaited.got();
}

constexpr std::size_t long_message = 300'000;

TEST(ShmMail, AMessageThatIsNotAskedForDoesNotBarTheWay) {
  for (const std::size_t length : {std::size_t{4}, std::size_t{2000}, long_message}) {
    Office office(2);
    std::thread other([&] {
      for (std::uint64_t tag = 0; tag < 20; ++tag)
        send(office.of(1), 0, tag, message_of(tag, length + tag));
    });
    for (std::uint64_t tag = 20; tag-- > 0;)
      EXPECT_EQ(receive(office.of(0), 1, tag, length + 20), message_of(tag, length + tag));
    other.join();
  }
}

TEST(ShmMail, MessagesWithOneTagKeepTheirOrder) {
  Office office(3);
  constexpr std::size_t messages = 200;
  auto length_of = [](std::size_t message) { return message * 1973 % 90'000; };
  std::thread other([&] {
    std::vector<std::unique_ptr<Letter>> letters;
    for (std::size_t i = 0; i < messages; ++i) {
      letters.push_back(std::make_unique<Letter>(0, 5, message_of(i, length_of(i))));
      office.of(2).start(letters.back()->sending);
    }
    for (const auto& letter : letters)
      wait_until([&] { return office.of(2).step(letter->sending); });
  });
  // Receives that are started together match in the order in which they were started.
  std::vector<std::unique_ptr<Receipt>> awaited;
  for (std::size_t i = 0; i < messages; ++i) {
    awaited.push_back(std::make_unique<Receipt>(i % 2 == 0 ? 2 : any_source, 5, 90'000));
    office.of(0).start(awaited.back()->receiving);
  }
  for (std::size_t i = messages; i-- > 0;)
    wait_until([&] { return office.of(0).step(awaited[i]->receiving); });
  other.join();
  for (std::size_t i = 0; i < messages; ++i)
    ASSERT_EQ(awaited[i]->got(), message_of(i, length_of(i))) << i;
}

TEST(ShmMail, NobodyIsPassedOverByReceivesFromAnybody) {
  constexpr int members = 9;
  constexpr int each = 50;
  Office office(members);
  for (int member = 1; member < members; ++member)
    for (int i = 0; i < each; ++i)
      send(office.of(member), 0, 1, message_of(static_cast<std::size_t>(i), 8));
  std::vector<int> from(members, 0);
  for (int i = 0; i < each * (members - 1); ++i) {
    int source = -1;
    receive(office.of(0), any_source, 1, 8, &source);
    ++from[static_cast<std::size_t>(source)];
    const auto [least, most] = std::minmax_element(from.begin() + 1, from.end());
    ASSERT_LE(*most - *least, 1) << "after " << i + 1 << " messages";
  }
}

TEST(ShmMail, ALongerMessageIsAnErrorAndTheNextOneComes) {
  for (const std::size_t length : {std::size_t{64}, long_message}) {
    Office office(2);
    std::thread other([&] {
      send(office.of(1), 0, 1, message_of(1, length));
      send(office.of(1), 0, 1, message_of(2, length));
    });
    Receipt small(1, 1, length - 1);
    office.of(0).start(small.receiving);
    EXPECT_THROW(wait_until([&] { return office.of(0).step(small.receiving); }), UsageError);
    EXPECT_TRUE(std::all_of(small.data.begin(), small.data.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_EQ(receive(office.of(0), 1, 1, length), message_of(2, length));
    other.join();
  }
}

TEST(ShmMail, AReceiveThatIsGivenUpInTheMiddleIsNotWrittenAfterwards) {
  Office office(2);
  Letter letter(0, 3, message_of(3, 4 << 20));
  office.of(1).start(letter.sending);
  Receipt awaited(1, 3, letter.data.size());
  office.of(0).start(awaited.receiving);
  EXPECT_FALSE(office.of(0).step(awaited.receiving));  // some of it has come
  office.of(0).withdraw(awaited.receiving);
  const std::vector<std::byte> before = awaited.data;
  EXPECT_NE(before, std::vector<std::byte>(before.size()));
  std::thread other([&] {
    wait_until([&] { return office.of(1).step(letter.sending); });
    send(office.of(1), 0, 4, message_of(4, 1000));
  });
  EXPECT_EQ(receive(office.of(0), 1, 4, 1000), message_of(4, 1000));
  other.join();
  EXPECT_EQ(receive(office.of(0), 1, 3, letter.data.size()), letter.data);
  EXPECT_EQ(awaited.data, before);
}

/// Two messages to member 0 with one tag, of which the first is long.
struct TwoOnTheirWay {
  TwoOnTheirWay() {
    for (Letter* letter : {&first, &second}) office.of(1).start(letter->sending);
  }
  /// Sends what is left of both.
  std::thread sender() {
    return std::thread([this] {
      wait_until([this] { return office.of(1).step(first.sending); });
      wait_until([this] { return office.of(1).step(second.sending); });
    });
  }
  Office office{2};
  Letter first{0, 3, message_of(1, 4 << 20)};
  Letter second{0, 3, message_of(2, 20'000)};
};

TEST(ShmMail, AMessageOfWhichAPartHadComeIsKeptForTheNextReceive) {
  TwoOnTheirWay scene;
  auto& [office, first, second] = scene;
  Receipt given_up(1, 3, first.data.size());
  office.of(0).start(given_up.receiving);
  EXPECT_FALSE(office.of(0).step(given_up.receiving));  // some of it has come
  EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
  std::thread other = scene.sender();
  EXPECT_EQ(receive(office.of(0), any_source, 3, first.data.size()), first.data);
  EXPECT_EQ(receive(office.of(0), 1, 3, first.data.size()), second.data);
  other.join();
}

TEST(ShmMail, AMessageOfWhichAPartHadComeGoesToAReceiveThatWaitsForIt) {
  TwoOnTheirWay scene;
  auto& [office, first, second] = scene;
  Receipt given_up(1, 3, first.data.size());
  Receipt waits(1, 3, first.data.size());
  for (Receipt* awaited : {&given_up, &waits}) office.of(0).start(awaited->receiving);
  EXPECT_FALSE(office.of(0).step(waits.receiving));
  EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
  std::thread other = scene.sender();
  wait_until([&] { return office.of(0).step(waits.receiving); });
  EXPECT_EQ(waits.got(), first.data);
  EXPECT_EQ(receive(office.of(0), 1, 3, first.data.size()), second.data);
  other.join();
}

// Another thread may have completed a receive that is just being given up.
TEST(ShmMail, AMessageThatHadComeUnnoticedIsKeptForTheNextReceive) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{64}, std::size_t{20'000}}) {
    Office office(2);
    std::thread other([&] {
      for (std::size_t i = 1; i <= 3; ++i) send(office.of(1), 0, 3, message_of(i, length));
      send(office.of(1), 0, 4, message_of(4, length));
    });
    Receipt given_up(1, 3, length);
    office.of(0).start(given_up.receiving);
    EXPECT_EQ(receive(office.of(0), 1, 4, length), message_of(4, length));
    ASSERT_TRUE(given_up.receiving.is_done());
    EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
    for (std::size_t i = 1; i <= 3; ++i)
      EXPECT_EQ(receive(office.of(0), 1, 3, length), message_of(i, length));
    other.join();
  }
}

TEST(ShmMail, TheLastMessageThatHadComeUnnoticedIsKept) {
  Office office(2);
  Letter letter(0, 3, message_of(3, 20'000));
  office.of(1).start(letter.sending);
  Receipt given_up(1, 3, letter.data.size());
  Receipt never(1, 9, 1);
  for (Receipt* awaited : {&given_up, &never}) office.of(0).start(awaited->receiving);
  EXPECT_FALSE(office.of(0).step(never.receiving));
  ASSERT_TRUE(given_up.receiving.is_done());
  EXPECT_TRUE(office.of(0).withdraw(given_up.receiving));
  EXPECT_EQ(receive(office.of(0), 1, 3, letter.data.size()), letter.data);
  EXPECT_TRUE(office.of(0).withdraw(never.receiving));
}

TEST(ShmMail, AMessageThatCannotBeKeptIsLost) {
  if (sanitized) GTEST_SKIP() << "sanitizers end a process that asks for too much memory";
  Office office(2);
  Letter letter(0, 3, message_of(3, 4 << 20));
  letter.sending.bytes = SIZE_MAX;
  office.of(1).start(letter.sending);
  Receipt awaited(1, 3, letter.data.size());
  awaited.receiving.room = SIZE_MAX;
  office.of(0).start(awaited.receiving);
  EXPECT_FALSE(office.of(0).step(awaited.receiving));
  EXPECT_FALSE(office.of(0).withdraw(awaited.receiving));
  EXPECT_FALSE(office.of(1).withdraw(letter.sending));
}

TEST(ShmMail, AReceiveTakesOverAMessageThatIsBeingPutAside) {
  Office office(2);
  Letter letter(0, 3, message_of(3, 4 << 20));
  office.of(1).start(letter.sending);
  Receipt never(1, 9, 1);
  office.of(0).start(never.receiving);
  EXPECT_FALSE(office.of(0).step(never.receiving));  // puts the beginning aside
  std::thread other([&] { wait_until([&] { return office.of(1).step(letter.sending); }); });
  EXPECT_EQ(receive(office.of(0), 1, 3, letter.data.size()), letter.data);
  other.join();
  office.of(0).withdraw(never.receiving);
}

TEST(ShmMail, ASendCanBeWithdrawnUntilAPartOfItHasGone) {
  Office office(2);
  Letter first(0, 1, message_of(1, 4 << 20));
  Letter second(0, 2, message_of(2, 4 << 20));
  Letter third(0, 3, message_of(3, 10));
  for (Letter* letter : {&first, &second, &third}) office.of(1).start(letter->sending);
  EXPECT_TRUE(office.of(1).withdraw(second.sending));
  std::thread other([&] {
    wait_until([&] { return office.of(1).step(first.sending); });
    wait_until([&] { return office.of(1).step(third.sending); });
  });
  EXPECT_EQ(receive(office.of(0), 1, 3, 10), third.data);
  EXPECT_EQ(receive(office.of(0), 1, 1, first.data.size()), first.data);
  other.join();
  Letter half(0, 4, message_of(4, 4 << 20));
  office.of(1).start(half.sending);
  EXPECT_FALSE(office.of(1).withdraw(half.sending));
}

TEST(ShmMail, AnAbortReachesWhoeverWaits) {
  Office office(2);
  Receipt awaited(1, 1, 8);
  office.of(0).start(awaited.receiving);
  EXPECT_FALSE(office.of(0).step(awaited.receiving));
  office.of(1).channel().abort("the reason");
  EXPECT_THROW(office.of(0).step(awaited.receiving), AbortedError);
  office.of(0).withdraw(awaited.receiving);
}

TEST(ShmMail, ManyThreadsOfManyMembers) {
  constexpr int members = 5;
  constexpr int threads = 2;
  constexpr int messages = sanitized ? 20 : 60;
  for (const bool oversubscribed : {true, false}) {
    Office office(members, oversubscribed);
    // Thread t of each member exchanges messages with thread t of all others, all under way at
    // once.
    auto run = [&](int me, int thread) {
      const auto tag = static_cast<std::uint64_t>(thread);
      std::mt19937 random(static_cast<unsigned>(me * 100 + thread));
      std::vector<std::unique_ptr<Letter>> letters;
      std::vector<std::unique_ptr<Receipt>> awaited;
      for (int i = 0; i < messages; ++i)
        for (int peer = 0; peer < members; ++peer) {
          if (peer == me) continue;
          const std::size_t length = random() % 4 == 0 ? random() % 100'000 : random() % 200;
          auto bytes = message_of(static_cast<std::size_t>(me * 1000 + i), length);
          letters.push_back(std::make_unique<Letter>(peer, tag, std::move(bytes)));
          awaited.push_back(std::make_unique<Receipt>(peer, tag, 100'000));
          office.of(me).start(awaited.back()->receiving);
          office.of(me).start(letters.back()->sending);
        }
      wait_until([&] {
        bool all = true;
        for (const auto& letter : letters) all = office.of(me).step(letter->sending) && all;
        for (const auto& receive : awaited) all = office.of(me).step(receive->receiving) && all;
        return all;
      });
      std::size_t k = 0;
      for (std::size_t i = 0; i < messages; ++i)
        for (int peer = 0; peer < members; ++peer) {
          if (peer == me) continue;
          const auto got = awaited[k++]->got();
          EXPECT_EQ(got, message_of(static_cast<std::size_t>(peer) * 1000 + i, got.size()));
        }
    };
    std::vector<std::thread> all;
    for (int me = 0; me < members; ++me)
      for (int thread = 0; thread < threads; ++thread) all.emplace_back(run, me, thread);
    for (std::thread& thread : all) thread.join();
  }
}

// --- Looked for before they are received

TEST(ShmMailProbe, NobodyIsPassedOverByReceivesOfWhatWasFound) {
  constexpr int members = 5;
  constexpr int each = 20;
  constexpr std::uint64_t tag = user_mail_tag | 1;
  Office office(members);
  for (int member = 1; member < members; ++member)
    for (int i = 0; i < each; ++i)
      send(office.of(member), 0, tag, message_of(static_cast<std::size_t>(i), 8));
  std::vector<int> from(members, 0);
  for (int i = 0; i < each * (members - 1); ++i) {
    const auto found = office.of(0).probe(any_source, tag, PutAside::anything);
    ASSERT_TRUE(found.has_value());
    receive(office.of(0), found->source, tag, 8);
    ++from[static_cast<std::size_t>(found->source)];
    const auto [least, most] = std::minmax_element(from.begin() + 1, from.end());
    ASSERT_LE(*most - *least, 1) << "after " << i + 1 << " messages";
  }
}

TEST(ShmMailProbe, WhoPollsHoldsBackASenderOfWhatIsNotAskedFor) {
  constexpr std::size_t piece = 4 << 20;
  constexpr std::size_t most_pieces = ShmMail::most_aside / piece + 2;
  Office office(2);
  std::vector<std::unique_ptr<Letter>> letters;
  for (std::size_t i = 0; i < 2 * most_pieces; ++i) {
    letters.push_back(std::make_unique<Letter>(0, 1, std::vector<std::byte>(piece)));
    office.of(1).start(letters.back()->sending);
  }
  Letter wanted(0, 9, message_of(9, 8));
  office.of(1).start(wanted.sending);
  std::size_t gone = 0;
  for (int in_vain = 0; in_vain < 1000; ++in_vain) {
    ASSERT_FALSE(office.of(0).probe(1, 9, PutAside::some).has_value());
    while (gone < letters.size() && office.of(1).step(letters[gone]->sending)) {
      ++gone;
      in_vain = 0;
    }
    ASSERT_LE(gone, most_pieces);
  }
  EXPECT_GE(gone, ShmMail::most_aside / piece);
  // Who waits gets what it waits for.
  wait_until([&] {
    (void)office.of(1).step(wanted.sending);
    return office.of(0).probe(1, 9, PutAside::anything).has_value();
  });
  EXPECT_EQ(receive(office.of(0), 1, 9, 8), wanted.data);
  // What was put aside counts no more when it has been received.
  for (std::size_t i = 0; i < letters.size(); ++i) receive(office.of(0), 1, 1, piece);
  send(office.of(1), 0, 1, message_of(1, 8));
  send(office.of(1), 0, 9, message_of(2, 8));
  EXPECT_TRUE(office.of(0).probe(1, 9, PutAside::some).has_value());
}

// The list of receives that wait ends elsewhere whenever its last one goes.
TEST(ShmMailEnds, ReceivesComeBehindThoseThatAreLeft) {
  Office office(2);
  ShmMail& mail = office.of(1);
  Receipt first(0, 1, 8);
  Receipt last(0, 2, 8);
  mail.start(first.receiving);
  mail.start(last.receiving);
  EXPECT_TRUE(mail.withdraw(last.receiving));
  Receipt next(0, 3, 8);
  mail.start(next.receiving);
  send(office.of(0), 1, 3, message_of(3, 8));
  wait_until([&] { return mail.step(next.receiving); });
  Receipt behind(0, 4, 8);
  mail.start(behind.receiving);
  send(office.of(0), 1, 1, message_of(1, 8));
  send(office.of(0), 1, 4, message_of(4, 8));
  wait_until([&] { return mail.step(first.receiving); });
  wait_until([&] { return mail.step(behind.receiving); });
  EXPECT_EQ(behind.got(), message_of(4, 8));
  Receipt alone(0, 5, 8);
  mail.start(alone.receiving);
  send(office.of(0), 1, 5, message_of(5, 8));
  wait_until([&] { return mail.step(alone.receiving); });
}

}  // namespace
}  // namespace hymn::test
