// Ranks that meet over an Exchange, on a clock of the test's own.
#include "base/meeting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "p2p/threads/thread_hub.hpp"
#include "tests/unit/fake_clock.hpp"
#include "tests/unit/text_bytes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t meeting_tag = 5;

/// Some ranks of one hub, each with a clock of its own: one that stands still waits for ever.
class Ranks {
 public:
  explicit Ranks(int size)
      : hub_(std::make_shared<ThreadHub>(size)), clocks_(as_size(size)), waits_(as_size(size)) {
    for (int rank = 0; rank < size; ++rank)
      exchanges_.push_back(std::make_unique<ThreadExchange>(hub_, rank));
  }

  Exchange& exchange(int rank) { return *exchanges_[as_size(rank)]; }
  FakeClock& clock(int rank) { return clocks_[as_size(rank)]; }
  ThreadHub& hub() { return *hub_; }

  Patience patience(int rank, Timeout limit) {
    Patience patience;
    // The clock may be moving already: the deadline must not depend on how often it was looked at.
    patience.deadline = Deadline::after(limit, clock(rank).now());
    patience.clock = &clock(rank);
    patience.purpose = "making a test";
    patience.context.rank = rank;
    patience.meanwhile = [&waits = waits_[as_size(rank)]] { waits = true; };
    if (const auto own = long_waits_.find(rank); own != long_waits_.end())
      patience.long_wait = own->second;
    return patience;
  }

  /// From now on the rank tells of waits that are longer than this.
  void tell_after(int rank, Timeout limit) {
    long_waits_[rank] = std::make_shared<LongWait>(
        limit, clock(rank), [this, rank](std::span<const int> missing, Duration, bool quietly) {
          const std::lock_guard lock(told_mutex_);
          told_.push_back(fmt::format("rank {} waits for {}{}", rank, fmt::join(missing, ", "),
                                      quietly ? ", quietly" : ""));
        });
  }
  /// Until the rank has said what it has to say, and waits for the others.
  void await_waiting(int rank) {
    while (!waits_[as_size(rank)]) std::this_thread::yield();
  }
  std::vector<std::string> told() {
    const std::lock_guard lock(told_mutex_);
    return told_;
  }

  /// What a rank gathers, as text; an error as its class and text.
  std::string gather(int rank, const std::vector<int>& members, Timeout limit) {
    try {
      const auto all = all_gather(exchange(rank), members, meeting_tag,
                                  bytes_of("from " + std::to_string(rank)), patience(rank, limit));
      std::string text;
      for (const Bytes& bytes : all) text += text_of(bytes) + ";";
      return text;
    } catch (const TimeoutError& error) {
      return std::string("timeout: ") + error.what();
    } catch (const UsageError& error) {
      return std::string("usage: ") + error.what();
    }
  }
  std::future<std::string> gather_aside(int rank, std::vector<int> members, Timeout limit) {
    return std::async(std::launch::async, [this, rank, members = std::move(members), limit] {
      return gather(rank, members, limit);
    });
  }

 private:
  static std::size_t as_size(int rank) { return static_cast<std::size_t>(rank); }
  std::shared_ptr<ThreadHub> hub_;
  std::vector<FakeClock> clocks_;
  std::vector<std::atomic<bool>> waits_;
  std::map<int, std::shared_ptr<LongWait>> long_waits_;
  std::mutex told_mutex_;
  std::vector<std::string> told_;
  std::vector<std::unique_ptr<ThreadExchange>> exchanges_;
};

/// The clock has moved by `look` with each look at it: one at the beginning of the wait for each of
/// those that are missing, one at its end, and the last one to tell how long it was.
void expect_waited(const TimeoutError& error, Duration limit, Duration look) {
  EXPECT_GE(error.waited(), limit);
  EXPECT_LE(error.waited(), limit + 3 * look);
}

TEST(Receive, GivesTheMessage) {
  Ranks ranks(2);
  ranks.exchange(1).send(0, meeting_tag, bytes_of("hello"));
  const ExchangeMessage message = receive(ranks.exchange(0), 1, meeting_tag, ranks.patience(0, 1s));
  EXPECT_EQ(message.source, 1);
  EXPECT_EQ(text_of(message.bytes), "hello");
}

TEST(Receive, TakesWhatIsThereEvenWhenTimeIsUp) {
  Ranks ranks(2);
  ranks.exchange(1).send(0, meeting_tag, bytes_of("just in time"));
  const ExchangeMessage message = receive(ranks.exchange(0), 1, meeting_tag, ranks.patience(0, 0s));
  EXPECT_EQ(text_of(message.bytes), "just in time");
}

TEST(Receive, NamesTheRankThatDidNotSend) {
  Ranks ranks(3);
  ranks.exchange(1).send(0, meeting_tag, {});      // another rank,
  ranks.exchange(2).send(0, meeting_tag + 1, {});  // and another tag
  const Patience patience = ranks.patience(0, 2s);
  ranks.clock(0).set_step(500ms);
  try {
    receive(ranks.exchange(0), 2, meeting_tag, patience);
    FAIL() << "received";
  } catch (const TimeoutError& error) {
    expect_waited(error, 2s, 500ms);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("making a test"), HasSubstr("rank(s) 2"),
                                    HasSubstr("[rank 0]"), HasSubstr("remedy")));
  }
}

TEST(Receive, EndsWhenTheRanksAreReleased) {
  Ranks ranks(2);
  std::thread other([&] { ranks.hub().abort("enough"); });
  EXPECT_THROW(receive(ranks.exchange(0), 1, meeting_tag, ranks.patience(0, Timeout::none())),
               AbortedError);
  other.join();
}

TEST(AllGather, GivesEverybodyEverything) {
  Ranks ranks(4);
  const std::vector<int> members = {0, 1, 2, 3};
  std::vector<std::future<std::string>> results;
  for (const int rank : members)
    results.push_back(ranks.gather_aside(rank, members, Timeout::none()));
  for (auto& result : results) EXPECT_EQ(result.get(), "from 0;from 1;from 2;from 3;");
}

/// Until so many have told of a long wait.
void await_told(Ranks& ranks, std::size_t count) {
  while (ranks.told().size() < count) std::this_thread::sleep_for(1ms);
}

TEST(AllGather, TellsOnceWhoIsMissing) {
  Ranks ranks(5);
  const std::vector<int> members = {0, 1, 2, 3, 4};
  std::map<int, std::future<std::string>> results;
  const auto come = [&](int rank) {
    results[rank] = ranks.gather_aside(rank, members, Timeout::none());
  };
  ranks.tell_after(0, 30s);
  // Told by the first, though the clocks of the others stand still.
  for (const int rank : {1, 3, 4}) ranks.tell_after(rank, 30s);
  ranks.clock(0).set_step(1s);
  for (const int rank : {1, 3}) {
    come(rank);
    ranks.await_waiting(rank);
  }
  come(0);
  await_told(ranks, 3);
  // Who comes late is told, too, who is still missing.
  come(4);
  await_told(ranks, 4);
  come(2);
  for (auto& [rank, result] : results)
    EXPECT_EQ(result.get(), "from 0;from 1;from 2;from 3;from 4;");
  EXPECT_THAT(ranks.told(), UnorderedElementsAre(
                                "rank 0 waits for 2, 4", "rank 1 waits for 2, 4, quietly",
                                "rank 3 waits for 2, 4, quietly", "rank 4 waits for 2, quietly"));
}

TEST(AllGather, TellsThatTheFirstIsMissing) {
  Ranks ranks(4);
  const std::vector<int> members = {0, 1, 2, 3};
  std::map<int, std::future<std::string>> results;
  for (const int rank : {1, 2, 3}) {
    ranks.tell_after(rank, 30s);
    ranks.clock(rank).set_step(1s);
    results[rank] = ranks.gather_aside(rank, members, Timeout::none());
  }
  await_told(ranks, 3);
  results[0] = ranks.gather_aside(0, members, Timeout::none());
  for (auto& [rank, result] : results) EXPECT_EQ(result.get(), "from 0;from 1;from 2;from 3;");
  EXPECT_THAT(ranks.told(), UnorderedElementsAre("rank 1 waits for 0", "rank 2 waits for 0",
                                                 "rank 3 waits for 0, quietly"));
}

TEST(AllGather, OfASubsetInItsOrder) {
  Ranks ranks(4);
  auto three = ranks.gather_aside(3, {1, 3}, 1s);
  EXPECT_EQ(ranks.gather(1, {1, 3}, 1s), "from 1;from 3;");
  EXPECT_EQ(three.get(), "from 1;from 3;");
}

TEST(AllGather, OfOneRankNeedsNobody) {
  Ranks ranks(2);
  EXPECT_EQ(ranks.gather(1, {1}, 0s), "from 1;");
}

TEST(AllGather, ManyInARowDoNotMix) {
  Ranks ranks(3);
  constexpr int rounds = 200;
  auto run = [&](int rank) {
    for (int round = 0; round < rounds; ++round) {
      const std::string mine = std::to_string(round) + " of " + std::to_string(rank);
      const auto all = all_gather(ranks.exchange(rank), std::vector{0, 1, 2}, meeting_tag,
                                  bytes_of(mine), ranks.patience(rank, Timeout::none()));
      for (int other = 0; other < 3; ++other)
        if (text_of(all[static_cast<std::size_t>(other)]) !=
            std::to_string(round) + " of " + std::to_string(other))
          return false;
    }
    return true;
  };
  std::vector<std::future<bool>> results;
  for (int rank = 0; rank < 3; ++rank) results.push_back(std::async(std::launch::async, run, rank));
  for (auto& result : results) EXPECT_TRUE(result.get());
}

/// Waits until this rank's word has reached `to`, so that what follows finds it there.
void wait_for_message_to(Ranks& ranks, int from, int to) {
  // Passed on to itself: the mailbox keeps it for the meeting.
  std::optional<ExchangeMessage> message;
  while (!(message = ranks.exchange(to).try_receive(from, meeting_tag))) std::this_thread::yield();
  ranks.exchange(from).send(to, meeting_tag, message->bytes);
}

TEST(AllGather, MissingRanksAreNamedToAllThatCame) {
  Ranks ranks(5);
  const std::vector<int> members = {0, 1, 2, 3, 4};
  // Ranks 2 and 4 do not come. The clocks of 1 and 3 stand still: they learn it from rank 0.
  auto one = ranks.gather_aside(1, members, 3s);
  auto three = ranks.gather_aside(3, members, 3s);
  wait_for_message_to(ranks, 1, 0);
  wait_for_message_to(ranks, 3, 0);
  const Patience patience = ranks.patience(0, 3s);
  ranks.clock(0).set_step(1s);
  try {
    all_gather(ranks.exchange(0), members, meeting_tag, bytes_of("from 0"), patience);
    FAIL() << "gathered";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank(s) 2, 4"), HasSubstr("[rank 0]")));
    EXPECT_EQ(error.context().missing, (std::vector{2, 4}));
    expect_waited(error, 3s, 2s);  // one look more for each of them
  }
  EXPECT_THAT(one.get(),
              AllOf(HasSubstr("timeout"), HasSubstr("rank(s) 2, 4"), HasSubstr("[rank 1]")));
  EXPECT_THAT(three.get(),
              AllOf(HasSubstr("timeout"), HasSubstr("rank(s) 2, 4"), HasSubstr("[rank 3]")));
}

TEST(AllGather, WhoComesAfterTheOthersHaveGivenUpHearsSo) {
  Ranks ranks(3);
  const std::vector<int> members = {0, 1, 2};
  auto one = ranks.gather_aside(1, members, 3s);
  wait_for_message_to(ranks, 1, 0);
  const Patience patience = ranks.patience(0, 3s);
  ranks.clock(0).set_step(1s);
  EXPECT_THROW(all_gather(ranks.exchange(0), members, meeting_tag, {}, patience), TimeoutError);
  try {
    all_gather(ranks.exchange(2), members, meeting_tag, {}, ranks.patience(2, 3s));
    FAIL() << "gathered";
  } catch (const MissedMeeting& error) {
    EXPECT_THAT(error.problem(), HasSubstr("rank 0 has given it up before this rank came"));
    EXPECT_EQ(error.context().missing, std::vector{2});
  }
  EXPECT_THAT(one.get(), AllOf(HasSubstr("waited"), HasSubstr("rank(s) 2")));
}

TEST(AllGather, AMissingFirstRankIsNamedAfterSomeGrace) {
  Ranks ranks(2);
  const Patience patience = ranks.patience(1, 2s);
  ranks.clock(1).set_step(100ms);
  try {
    all_gather(ranks.exchange(1), std::vector{0, 1}, meeting_tag, {}, patience);
    FAIL() << "gathered";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank(s) 0"), HasSubstr("[rank 1]")));
    // So that the first can still tell who is missing.
    expect_waited(error, 2500ms, 100ms);
  }
}

// Before the others can see it.
TEST(AllGather, WhoIsGoneIsNamedToAllThatCome) {
  Ranks ranks(3);
  const std::vector<int> members = {0, 1, 2};
  const auto hear = [&](int rank, const Patience& patience) {
    try {
      all_gather(ranks.exchange(rank), members, meeting_tag, {}, patience);
      ADD_FAILURE() << "gathered on rank " << rank;
    } catch (const PeerError& error) {
      EXPECT_EQ(error.problem(), "making a test: rank 2 is dead");
      EXPECT_EQ(error.context().missing, std::vector{2});
      EXPECT_EQ(error.context().rank, rank);
    }
  };
  auto one = std::async(std::launch::async, hear, 1, ranks.patience(1, Timeout::none()));
  wait_for_message_to(ranks, 1, 0);
  Patience patience = ranks.patience(0, Timeout::none());
  patience.meanwhile = [] {
    throw PeerError("making a test: rank 2 is dead", {.rank = 0, .missing = {2}});
  };
  hear(0, patience);
  one.get();
}

/// What is said by this needs further calls to get there, until it is let go.
class SlowExchange final : public Exchange {
 public:
  explicit SlowExchange(Exchange& exchange) : exchange_(exchange) {}

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    exchange_.send(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return exchange_.try_receive(from, tag);
  }
  std::string name() const override { return "slow"; }
  bool has_left(std::uint64_t) override {
    ++asked;
    return lets_go;
  }

  std::atomic<int> asked{0};
  std::atomic<bool> lets_go{false};

 private:
  Exchange& exchange_;
};

// All have come, so each will take it; and who has not would wait for the first one's next call,
// while that one waits in an operation for all.
TEST(AllGather, TheFirstStaysUntilAllCanHearIt) {
  Ranks ranks(2);
  const std::vector<int> members = {0, 1};
  SlowExchange first(ranks.exchange(0));
  const auto gather = [&](Exchange& exchange, const Patience& patience) {
    return all_gather(exchange, members, meeting_tag, bytes_of("word"), patience);
  };
  const auto one = std::async(std::launch::async, gather, std::ref(ranks.exchange(1)),
                              ranks.patience(1, Timeout::none()));
  auto zero =
      std::async(std::launch::async, gather, std::ref(first), ranks.patience(0, Timeout::none()));
  // Longer than it gives those of whom not all have come.
  EXPECT_EQ(zero.wait_for(400ms), std::future_status::timeout);
  EXPECT_GT(first.asked, 1);
  first.lets_go = true;
  EXPECT_EQ(zero.get().size(), 2u);
}

TEST(AllGather, WhoDoesNotTakeWhatAllHaveSaidIsNamed) {
  Ranks ranks(2);
  SlowExchange first(ranks.exchange(0));
  ranks.exchange(1).send(0, meeting_tag, bytes_of("word"));
  ranks.tell_after(0, 2s);
  const Patience patience = ranks.patience(0, 3s);
  ranks.clock(0).set_step(1ms);
  try {
    all_gather(first, std::vector{0, 1}, meeting_tag, {}, patience);
    FAIL() << "gathered";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.context().missing, std::vector{1});
  }
  EXPECT_EQ(ranks.told(), std::vector<std::string>{"rank 0 waits for 1"});
}

TEST(AllGather, WhoIsGoneNeedNotHearIt) {
  Ranks ranks(2);
  SlowExchange first(ranks.exchange(0));
  ranks.exchange(1).send(0, meeting_tag, bytes_of("word"));
  Patience patience = ranks.patience(0, Timeout::none());
  patience.is_hopeless = [](int rank) { return rank == 1; };
  EXPECT_EQ(all_gather(first, std::vector{0, 1}, meeting_tag, {}, patience).size(), 2u);
}

TEST(AllGather, NoLimitMeansNoLimitForAnyMember) {
  Ranks ranks(2);
  ranks.clock(1).set_step(1h);
  auto late = ranks.gather_aside(1, {0, 1}, Timeout::none());
  wait_for_message_to(ranks, 1, 0);
  EXPECT_EQ(ranks.gather(0, {0, 1}, Timeout::none()), "from 0;from 1;");
  EXPECT_EQ(late.get(), "from 0;from 1;");
}

TEST(AllGather, DifferentListsAreAUsageError) {
  Ranks ranks(3);
  auto one = ranks.gather_aside(1, {0, 1, 2}, 3s);
  EXPECT_EQ(ranks.gather(0, {0, 1}, 3s), "from 0;from 1;");
  EXPECT_THAT(one.get(),
              AllOf(HasSubstr("usage"), HasSubstr("rank 0 gathers from 2"),
                    HasSubstr("gathers from 3"), HasSubstr("[rank 1]"), HasSubstr("same")));
}

TEST(Packing, IsReadBackInOrder) {
  Packer packer;
  packer.number(7).text("seven").bytes({}).number(~0ull).text("").bytes(bytes_of("\0x\0"));
  Unpacker unpacker(packer.packed());
  EXPECT_EQ(unpacker.number(), 7u);
  EXPECT_EQ(unpacker.text(), "seven");
  EXPECT_TRUE(unpacker.bytes().empty());
  EXPECT_EQ(unpacker.number(), ~0ull);
  EXPECT_EQ(unpacker.text(), "");
  EXPECT_FALSE(unpacker.empty());
  EXPECT_EQ(unpacker.bytes(), bytes_of("\0x\0"));
  EXPECT_TRUE(unpacker.empty());
}

TEST(Packing, BytesThatEndTooSoonAreANetworkError) {
  Packer packer;
  packer.number(3).text("three").bytes(bytes_of("more"));
  const Bytes whole = packer.packed();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // In memory of its own, so that a sanitizer sees a read beyond it.
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    Unpacker unpacker(part);
    EXPECT_THROW(
        {
          unpacker.number();
          unpacker.text();
          unpacker.bytes();
        },
        NetworkError)
        << length << " of " << whole.size() << " bytes";
  }
}

TEST(Packing, AnImpossibleLengthIsANetworkError) {
  for (const std::uint64_t length : std::array<std::uint64_t, 4>{1, 1ull << 40, ~0ull, ~0ull - 7}) {
    const Packer packer = Packer().number(length);
    Unpacker unpacker(packer.packed());
    EXPECT_THROW(unpacker.bytes(), NetworkError) << length;
    EXPECT_THROW(Unpacker(packer.packed()).count(), NetworkError) << length;
  }
}

}  // namespace
}  // namespace hymn::test
