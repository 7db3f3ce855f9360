// The kernel of messages between peers, with blocks that are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <thread>

#include "tests/unit/peer_scene.hpp"

namespace hymn::test {
namespace {

using cuda::message_blocks;
using cuda::MessagesCall;
using cuda::PeerFailure;

constexpr std::size_t box_bytes = 512;  // each block has 64 of them

/// One line of a call: to a peer or from it.
struct Line {
  unsigned peer;
  bool is_send;
  std::vector<std::pair<void*, std::size_t>> messages{};
};

MessagesCall call_of(const std::vector<Line>& lines, std::uint64_t limit = 0) {
  MessagesCall call{};
  call.limit = limit;
  std::uint16_t count = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    call.lines[i] = {static_cast<std::uint16_t>(lines[i].peer),
                     static_cast<std::uint16_t>(lines[i].is_send ? 1 : 0), count, count};
    for (const auto& [data, bytes] : lines[i].messages)
      call.messages[count++] = {static_cast<std::byte*>(data), bytes};
    call.lines[i].end = count;
  }
  return call;
}

void run(PeerScene& scene, unsigned rank, const std::vector<Line>& lines, std::uint64_t limit = 0) {
  run_messages_on_host(static_cast<unsigned>(lines.size()) * message_blocks, scene.team(rank),
                       call_of(lines, limit));
}

/// The number of a message, and the rank that sends it, are in all of its bytes.
Octets content(unsigned rank, unsigned number, std::size_t bytes) {
  Octets made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<unsigned char>(rank * 71 + number * 13 + i % 251);
  return made;
}

/// One message, at an address of its own, with guards around what is received.
struct Mail {
  Mail(unsigned sender, unsigned number, std::size_t bytes, std::size_t out_shift,
       std::size_t in_shift)
      : sent(content(sender, number, bytes)), out(out_shift), in(in_shift + bytes + 1, 0xee) {
    out.insert(out.end(), sent.begin(), sent.end());
    from = out_shift;
    to = in_shift;
  }
  std::pair<void*, std::size_t> given() { return {out.data() + from, sent.size()}; }
  std::pair<void*, std::size_t> wanted() { return {in.data() + to, sent.size()}; }
  void expect_received() const {
    const auto begin = in.begin() + static_cast<std::ptrdiff_t>(to);
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), begin)) << sent.size() << " bytes";
    for (auto each = in.begin(); each != begin; ++each) EXPECT_EQ(*each, 0xee);
    EXPECT_EQ(in.back(), 0xee) << "behind the end of " << sent.size() << " bytes";
  }
  Octets sent;
  Octets out;
  Octets in;
  std::size_t from;
  std::size_t to;
};

void run_both(PeerScene& scene, const std::vector<Line>& first, const std::vector<Line>& second) {
  std::jthread other([&] { run(scene, 1, second); });
  run(scene, 0, first);
}

constexpr std::size_t message_sizes[] = {0,   1,   15,  16,   17,   63,   64,   127,  129,
                                         511, 512, 513, 1024, 1025, 1536, 4097, 20011};

TEST(PeerMessages, AnySizeAndAlignmentArrives) {
  PeerScene scene(2, 256, box_bytes);
  for (const std::size_t bytes : message_sizes)
    for (const auto& [out, in] : {std::pair{0, 0}, {1, 0}, {0, 3}, {2, 4}, {8, 8}}) {
      Mail mail(0, 5, bytes, static_cast<std::size_t>(out), static_cast<std::size_t>(in));
      run_both(scene, {{1, true, {mail.given()}}}, {{0, false, {mail.wanted()}}});
      mail.expect_received();
    }
  EXPECT_EQ(scene.status(0), 0u);
  EXPECT_EQ(scene.status(1), 0u);
}

TEST(PeerMessages, WhatFitsIntoTheBoxesLeavesWithoutItsReceiver) {
  PeerScene scene(2, 256, box_bytes);
  Mail large(0, 1, 2 * box_bytes, 0, 0);
  run(scene, 0, {{1, true, {large.given()}}});
  EXPECT_EQ(scene.status(0), 0u);
  run(scene, 1, {{0, false, {large.wanted()}}});
  large.expect_received();
  Mail first(0, 2, 9, 0, 0);
  Mail second(0, 3, box_bytes, 0, 0);
  run(scene, 0, {{1, true, {first.given(), second.given()}}});
  run(scene, 1, {{0, false, {first.wanted()}}});
  run(scene, 1, {{0, false, {second.wanted()}}});
  first.expect_received();
  second.expect_received();
}

/// Many in a row, as several kernels and as one, which need not be the same on both sides.
TEST(PeerMessages, TheyKeepTheirOrder) {
  PeerScene scene(2, 256, box_bytes);
  std::list<Mail> mails;
  for (unsigned i = 0; i < 60; ++i)
    mails.emplace_back(0, i, message_sizes[i % std::size(message_sizes)] % 3000, i % 3, i % 5);
  std::jthread sender([&] {
    for (Mail& mail : mails) run(scene, 0, {{1, true, {mail.given()}}});
  });
  Line all{0, false};
  for (Mail& mail : mails) all.messages.push_back(mail.wanted());
  run(scene, 1, {all});
  for (const Mail& mail : mails) mail.expect_received();
}

TEST(PeerMessages, BothDirectionsGoAtTheSameTime) {
  PeerScene scene(2, 256, box_bytes);
  for (int round = 0; round < 10; ++round) {
    Mail there(0, 1, 10 * box_bytes + 3, 0, 1);
    Mail back(1, 2, 7 * box_bytes + 1, 1, 0);
    run_both(scene, {{1, true, {there.given()}}, {1, false, {back.wanted()}}},
             {{0, true, {back.given()}}, {0, false, {there.wanted()}}});
    there.expect_received();
    back.expect_received();
  }
}

/// Sends on one kernel, receives on another, as from different streams.
TEST(PeerMessages, DirectionsMayBeDifferentKernels) {
  PeerScene scene(2, 256, box_bytes);
  std::list<Mail> there;
  std::list<Mail> back;
  for (unsigned i = 0; i < 12; ++i) {
    there.emplace_back(0, i, 300 * i, 0, 0);
    back.emplace_back(1, i, 5000 - 400 * i, 0, 0);
  }
  const auto send = [&scene](unsigned rank, std::list<Mail>& mails) {
    for (Mail& mail : mails) run(scene, rank, {{1 - rank, true, {mail.given()}}});
  };
  const auto receive = [&scene](unsigned rank, std::list<Mail>& mails) {
    for (Mail& mail : mails) run(scene, rank, {{1 - rank, false, {mail.wanted()}}});
  };
  {
    std::jthread a([&] { send(0, there); });
    std::jthread b([&] { receive(0, back); });
    std::jthread c([&] { send(1, back); });
    receive(1, there);
  }
  for (const auto* mails : {&there, &back})
    for (const Mail& mail : *mails) mail.expect_received();
}

class PeerMessagesAmong : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerMessagesAmong, testing::Values(2u, 3u, 5u, 8u));

/// Everybody sends to everybody, more than the boxes hold, in one kernel a rank.
TEST_P(PeerMessagesAmong, EverybodySendsToEverybody) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 256, box_bytes);
  std::vector<std::list<Mail>> mails(ranks);  // by sender
  std::vector<std::vector<Line>> lines(ranks);
  for (unsigned from = 0; from < ranks; ++from)
    for (unsigned to = 0; to < ranks; ++to) {
      if (from == to) continue;
      Mail& mail = mails[from].emplace_back(from, to, 3 * box_bytes + 7 * from + to, 0, 0);
      lines[from].push_back({to, true, {mail.given()}});
      lines[to].push_back({from, false, {mail.wanted()}});
    }
  {
    std::vector<std::jthread> threads;
    for (unsigned rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { run(scene, rank, lines[rank]); });
  }
  for (const auto& of_one : mails)
    for (const Mail& mail : of_one) mail.expect_received();
}

TEST(PeerMessages, CollectivesRunBesideThem) {
  PeerScene scene(2, 4096, box_bytes);
  Mail mail(0, 1, 5 * box_bytes, 0, 0);
  std::jthread sender([&] { run(scene, 0, {{1, true, {mail.given()}}}); });
  std::vector<std::vector<float>> sums(2, std::vector<float>(100, 2.0F));
  std::vector<std::vector<PeerLaunch>> launches(2);
  for (unsigned rank = 0; rank < 2; ++rank)
    for (int i = 0; i < 3; ++i) {
      PeerLaunch launch{"hymn_all_reduce_one_shot_float32_sum", 2, {}};
      launch.call.input = launch.call.output = sums[rank].data();
      launch.call.bytes = 400;
      launches[rank].push_back(launch);
    }
  scene.run(launches);
  EXPECT_EQ(sums[0], std::vector<float>(100, 16.0F)) << "while a message waits";
  run(scene, 1, {{0, false, {mail.wanted()}}});
  mail.expect_received();
}

// --- What goes wrong

TEST(PeerMessages, APeerThatDoesNotComeIsNamedAtTheLimit) {
  PeerScene scene(3, 256, box_bytes);
  Mail mail(0, 1, 3 * box_bytes, 0, 0);
  run(scene, 0, {{2, true, {mail.given()}}}, 10 * millisecond);
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::timed_out, 2));
  run(scene, 1, {{2, false, {mail.wanted()}}}, 10 * millisecond);
  EXPECT_EQ(scene.status(1), status_of(PeerFailure::timed_out, 2));
  EXPECT_EQ(mail.in.front(), 0xee);
}

TEST(PeerMessages, WhoIsToldToEndEndsInTheMiddle) {
  PeerScene scene(2, 256, box_bytes);
  Mail mail(0, 1, 5 * box_bytes, 0, 0);
  {
    std::jthread sender([&] { run(scene, 0, {{1, true, {mail.given()}}}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(scene.aborted()).store(1, std::memory_order_release);
  }
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::aborted, 1));
  run(scene, 1, {{0, false, {mail.wanted()}}});
  EXPECT_EQ(scene.status(1), status_of(PeerFailure::aborted, 0)) << "half of a message";
}

// All of it would fit into the boxes: the receiver must not get what its sender has given up.
TEST(PeerMessages, WhatWasGivenUpDoesNotPassForAMessage) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, 2 * box_bytes}) {
    PeerScene scene(2, 256, box_bytes);
    Mail mail(0, 1, bytes, 0, 0);
    scene.aborted() = 1;
    run(scene, 0, {{1, true, {mail.given()}}});
    EXPECT_EQ(scene.status(0), status_of(PeerFailure::aborted, 1));
    scene.aborted() = 0;
    run(scene, 1, {{0, false, {mail.wanted()}}}, 5 * millisecond);
    EXPECT_EQ(scene.status(1), status_of(PeerFailure::timed_out, 0)) << bytes << " bytes";
  }
}

// A rank hands on what it was to receive, or to reduce, and has not.
TEST(PeerMessages, NothingIsSentBehindAKernelThatHasFailed) {
  PeerScene scene(3, 256, box_bytes);
  Mail mail(0, 1, 8, 0, 0);
  Mail handed_on(1, 1, 8, 0, 0);
  run(scene, 1, {{0, false, {mail.wanted()}}}, millisecond);
  run(scene, 1, {{2, true, {handed_on.given()}}});
  run(scene, 2, {{1, false, {handed_on.wanted()}}}, 5 * millisecond);
  EXPECT_EQ(scene.status(1), status_of(PeerFailure::timed_out, 0));
  EXPECT_EQ(scene.status(2), status_of(PeerFailure::timed_out, 1));

  PeerLaunch sum{"hymn_all_reduce_one_shot_float32_sum", 1, {}};
  std::vector<float> values(4);
  sum.call.input = sum.call.output = values.data();
  sum.call.bytes = 16;
  sum.call.limit = millisecond;
  scene.run_rank(0, {sum});
  run(scene, 0, {{2, true, {mail.given()}}});
  EXPECT_EQ(scene.head(2).messages[0].sent[0], 0u);
}

TEST(PeerMessages, AnotherSizeIsAnErrorOfBoth) {
  for (const auto& [given, wanted] : {std::pair<std::size_t, std::size_t>{8, 9},
                                      {0, 4},
                                      {4, 0},
                                      {box_bytes, 6 * box_bytes},
                                      {6 * box_bytes, box_bytes}}) {
    PeerScene scene(2, 256, box_bytes);
    Mail out(0, 1, given, 0, 0);
    Mail in(0, 1, wanted, 0, 0);
    Mail next(0, 2, 1, 0, 0);
    {
      std::jthread sender([&] { run(scene, 0, {{1, true, {out.given()}}}); });
      run(scene, 1, {{0, false, {in.wanted()}}});
    }
    EXPECT_EQ(scene.status(1), status_of(PeerFailure::wrong_size, 0));
    EXPECT_EQ(scene.sent(1), given);
    EXPECT_EQ(in.in.front(), 0xee) << "nothing of it is written";
    // A small one had left: its sender hears of it with the next.
    run(scene, 0, {{1, true, {next.given()}}});
    EXPECT_EQ(scene.status(0), status_of(PeerFailure::refused, 1));
  }
}

// Counts of pieces go round after 2^32 of them.
TEST(PeerMessages, CountsMayGoRound) {
  PeerScene scene(2, 256, box_bytes);
  for (unsigned block = 0; block < message_blocks; ++block) {
    scene.head(0).messages[1].sent_there[block] = scene.head(0).messages[1].taken[block] =
        0xfffffffeu;
    scene.head(1).messages[0].taken_here[block] = scene.head(1).messages[0].sent[block] =
        0xfffffffeu;
  }
  Mail mail(0, 1, 9 * box_bytes, 0, 0);
  run_both(scene, {{1, true, {mail.given()}}}, {{0, false, {mail.wanted()}}});
  mail.expect_received();
}

}  // namespace
}  // namespace hymn::test
