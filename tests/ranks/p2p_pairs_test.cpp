// What a rank sends to itself in a batch, and sends and receives as one call.
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/flight_records.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/ring.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

// --- To itself

RANK_TEST(P2pSelf, EveryDtypeIsCopied) {
  for (const DataType dtype : all_dtypes())
    for (const std::size_t count : every_count) {
      const Buffer out = filled(dtype, count, world.rank());
      Buffer in(dtype, count);
      const std::array both = {P2POp::send(out, world.rank(), 2), P2POp::recv(in, world.rank(), 2)};
      Work work = world.group().batch_isend_irecv(both);
      work.wait();
      expect_filled(in, world.rank());
      EXPECT_TRUE(in.guards_intact());
      ASSERT_EQ(work.statuses().size(), 1u);
      EXPECT_EQ(work.statuses()[0].source, world.rank());
      EXPECT_EQ(work.statuses()[0].tag, 2);
      EXPECT_EQ(work.statuses()[0].count, count);
    }
}

RANK_TEST(P2pSelf, TagsAndOrderTellWhichIsWhich) {
  const int self = world.rank();
  const std::array<std::int32_t, 4> out = {10, 11, 12, 13};
  std::array<std::int32_t, 4> in = {-1, -1, -1, -1};
  const std::array ops = {
      P2POp::recv(view_of(in[0]), self, 5),  P2POp::send(view_of(out[0]), self, 3),
      P2POp::send(view_of(out[1]), self, 5), P2POp::recv(view_of(in[1]), self, 3),
      P2POp::send(view_of(out[2]), self, 5), P2POp::recv(view_of(in[2]), self, 5),
      P2POp::recv(view_of(in[3]), self, 3),  P2POp::send(view_of(out[3]), self, 3)};
  world.group().batch_isend_irecv(ops).wait();
  EXPECT_EQ(in, (std::array<std::int32_t, 4>{11, 10, 12, 13}));
}

RANK_TEST(P2pSelf, EverybodyWithEverybodyAndItself) {
  std::vector<std::int64_t> out(as_size(world.size()));
  std::vector<std::int64_t> in(out.size(), -1);
  std::vector<P2POp> ops;
  for (int peer = 0; peer < world.size(); ++peer) {
    out[as_size(peer)] = 100 * world.rank() + peer;
    ops.push_back(P2POp::send(view_of(out[as_size(peer)]), peer, 1));
    ops.push_back(P2POp::recv(view_of(in[as_size(peer)]), peer, 1));
  }
  const std::uint64_t before = world.group().p2p_sequence();
  world.group().batch_isend_irecv(ops).wait();
  for (int peer = 0; peer < world.size(); ++peer)
    EXPECT_EQ(in[as_size(peer)], 100 * peer + world.rank());
  EXPECT_EQ(world.group().p2p_sequence() - before, ops.size());
}

RANK_TEST(P2pSelf, ShorterMessageLeavesTheRestOfTheBuffer) {
  const Buffer out = filled(DataType::int32, 6, world.rank());
  Buffer in(DataType::int32, 10);
  const std::array both = {P2POp::recv(in, world.rank()), P2POp::send(out, world.rank())};
  Work work = world.group().batch_isend_irecv(both);
  work.wait();
  EXPECT_EQ(work.statuses().at(0).count, 6u);
  expect_filled(in.slice(0, 6), world.rank());
  expect_untouched(in.slice(6, 4));
}

RANK_TEST(P2pSelf, TheSameBufferStaysAsItIs) {
  Buffer buffer = filled(DataType::float64, 9, world.rank());
  const std::array both = {P2POp::send(buffer, world.rank()), P2POp::recv(buffer, world.rank())};
  world.group().batch_isend_irecv(both).wait();
  expect_filled(buffer, world.rank());
}

/// That the batch is refused, and nothing of it sent: what the next rank gets is what comes later.
void expect_nothing_sent(World& world, std::string_view operation, const P2POp& faulty,
                         Words words) {
  const Buffer lost = filled(DataType::int32, 4, world.rank());
  std::vector<P2POp> ops = {faulty};
  if (world.size() > 1) ops.insert(ops.begin(), P2POp::send(lost, next_of(world), 8));
  expect_refused(
      world.group(), ErrorKind::usage, operation,
      [&] { (void)world.group().batch_isend_irecv(ops); }, words);
  const Buffer out = filled(DataType::int32, 4, world.rank(), 3);
  Buffer in(DataType::int32, 4);
  const std::array good = {P2POp::send(out, next_of(world), 8),
                           P2POp::recv(in, previous_of(world), 8)};
  world.group().batch_isend_irecv(good).wait();
  expect_filled(in, previous_of(world), 3);
}

RANK_TEST(P2pSelf, OneWithoutTheOtherIsRefused) {
  Buffer buffer(DataType::int32, 4);
  expect_nothing_sent(world, "send", P2POp::send(buffer, world.rank(), 7),
                      {"send to this rank itself with tag 7", "no recv", "in one batch"});
  expect_nothing_sent(world, "recv", P2POp::recv(buffer, world.rank(), 7),
                      {"recv from this rank itself with tag 7", "no send"});
}

RANK_TEST(P2pSelf, OtherTagsDoNotMatch) {
  const Buffer out(DataType::int32, 4);
  Buffer in(DataType::int32, 4);
  const std::array ops = {P2POp::send(out, world.rank(), 1), P2POp::recv(in, world.rank(), 2)};
  expect_refused(world.group(), ErrorKind::usage, "recv",
                 [&] { (void)world.group().batch_isend_irecv(ops); }, {"with tag 2"});
  expect_untouched(in);
}

RANK_TEST(P2pSelf, LongerOrOverlappingIsRefused) {
  Buffer buffer(DataType::int32, 10);
  const std::array longer = {P2POp::send(buffer.slice(0, 6), world.rank()),
                             P2POp::recv(buffer.slice(6, 4), world.rank())};
  expect_refused(world.group(), ErrorKind::usage, "recv",
                 [&] { (void)world.group().batch_isend_irecv(longer); }, {"24 bytes", "16 bytes"});
  const std::array crossed = {P2POp::send(buffer.slice(0, 6), world.rank()),
                              P2POp::recv(buffer.slice(4, 6), world.rank())};
  expect_refused(world.group(), ErrorKind::usage, "recv",
                 [&] { (void)world.group().batch_isend_irecv(crossed); }, {"overlap"});
}

RANK_TEST(P2pSelf, ASubgroupOfOneRank) {
  ProcessGroup own;
  for (int rank = 0; rank < world.size(); ++rank) {
    const ProcessGroup one = world.new_group({rank});
    if (rank == world.rank()) own = one;
  }
  const std::int32_t out = 40 + world.rank();
  std::int32_t in = -1;
  EXPECT_EQ(own.sendrecv(view_of(out), world.rank(), 1, view_of(in), world.rank(), 1).source,
            world.rank());
  EXPECT_EQ(in, out);
}

// --- Sends and receives as one call

RANK_TEST(P2pSendrecv, PeersTagsAndSizesDiffer) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{50000}}) {
    // Each rank sends as many more elements as its number, to the next one.
    const auto sent_by = [&](int rank) { return count + as_size(rank); };
    const Buffer out = filled(DataType::float32, sent_by(world.rank()), world.rank());
    Buffer in(DataType::float32, count + as_size(world.size()));
    const RecvStatus status =
        world.group().sendrecv(out, next_of(world), 9, in, previous_of(world), 9);
    EXPECT_EQ(status.source, previous_of(world));
    EXPECT_EQ(status.tag, 9);
    EXPECT_EQ(status.count, sent_by(previous_of(world)));
    expect_filled(in.slice(0, status.count), previous_of(world));
    EXPECT_TRUE(in.guards_intact());
  }
}

RANK_TEST(P2pSendrecv, EachDirectionHasItsTag) {
  NEEDS_RANKS(2);
  // Even ranks send with tag 1 and receive with tag 2; the last of an odd number is alone.
  const int partner = world.rank() ^ 1;
  if (partner < world.size()) {
    const std::int32_t out = 10 * world.rank();
    std::int32_t in = -1;
    const int own_tag = 1 + world.rank() % 2;
    EXPECT_EQ(world.group()
                  .sendrecv(view_of(out), partner, own_tag, view_of(in), partner, 3 - own_tag)
                  .tag,
              3 - own_tag);
    EXPECT_EQ(in, 10 * partner);
  }
  world.group().barrier();
}

RANK_TEST(P2pSendrecv, FromAnySource) {
  NEEDS_RANKS(2);
  const std::int32_t out = 10 * world.rank();
  std::int32_t in = -1;
  const RecvStatus status =
      world.group().sendrecv(view_of(out), next_of(world), 4, view_of(in), any_source, 4);
  EXPECT_EQ(status.source, previous_of(world));
  EXPECT_EQ(in, 10 * previous_of(world));
}

RANK_TEST(P2pSendrecv, Asynchronous) {
  const Buffer out = filled(DataType::int64, 33, world.rank());
  Buffer in(DataType::int64, 40);
  Work work = world.group().sendrecv_async(out, next_of(world), 1, in, previous_of(world), 1);
  work.wait();
  EXPECT_EQ(work.type(), OpType::batch);
  ASSERT_EQ(work.statuses().size(), 1u);
  EXPECT_EQ(work.statuses()[0].count, 33u);
  expect_filled(in.slice(0, 33), previous_of(world));
}

RANK_TEST(P2pSendrecv, WhatComesReplacesWhatIsSent) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{30000}}) {
    Buffer buffer = filled(DataType::float64, count, world.rank());
    const RecvStatus status =
        world.group().sendrecv_replace(buffer, next_of(world), 6, previous_of(world), 6);
    EXPECT_EQ(status.source, previous_of(world));
    EXPECT_EQ(status.count, count);
    expect_filled(buffer, previous_of(world));
    EXPECT_TRUE(buffer.guards_intact());
  }
}

RANK_TEST(P2pSendrecv, OverlapIsRefused) {
  Buffer buffer(DataType::int32, 10);
  const auto call = [&](std::size_t from) {
    world.group().sendrecv(buffer.slice(0, 6), next_of(world), 0, buffer.slice(from, 4),
                           previous_of(world), 0);
  };
  expect_refused(world.group(), ErrorKind::usage, "sendrecv", [&] { call(4); },
                 {"overlaps", "sendrecv_replace"});
  expect_refused(world.group(), ErrorKind::usage, "sendrecv", [&] { call(0); }, {"overlaps"});
}

RANK_TEST(P2pSendrecv, ToItselfNeedsBothWithOneTag) {
  const std::int32_t out = 1;
  std::int32_t in = -1;
  expect_refused(
      world.group(), ErrorKind::usage, "recv",
      [&] { world.group().sendrecv(view_of(out), world.rank(), 1, view_of(in), world.rank(), 2); },
      {"with tag 2"});
  EXPECT_EQ(in, -1);
  world.group().sendrecv(view_of(out), world.rank(), 2, view_of(in), world.rank(), 2);
  EXPECT_EQ(in, 1);
}

RANK_TEST(P2pSendrecv, ReplaceChecksItsBufferFirst) {
  expect_refused(world.group(), ErrorKind::usage, "send", [&] {
    world.group().sendrecv_replace(BufferView(nullptr, 4, DataType::int32), next_of(world), 0,
                                   previous_of(world), 0);
  });
  std::int32_t value = 0;
  expect_refused(world.group(), ErrorKind::usage, "send",
                 [&] {
                   world.group().sendrecv_replace(view_of(value), world.size(), 0,
                                                  previous_of(world), 0);
                 },
                 {"not part of group"});
}

RANK_TEST(P2pSendrecv, TypesOfOtherLibrariesMayBeInterleavedButNotCopied) {
  const int handle = 0;
  const OpaqueType type{.handle = &handle, .library = "another", .element_bytes = 8};
  Buffer memory(DataType::uint8, 64);
  const auto view_at = [&](std::size_t byte) {
    BufferView view(static_cast<std::byte*>(memory.data()) + byte, 4, DataType::opaque);
    view.opaque = &type;
    return view;
  };
  // Not that they overlap: no path knows the type.
  expect_refused(world.group(), ErrorKind::unsupported, "recv", [&] {
    world.group().sendrecv(view_at(0), next_of(world), 0, view_at(4), previous_of(world), 0);
  });
  expect_refused(
      world.group(), ErrorKind::unsupported, "send",
      [&] { world.group().sendrecv_replace(view_at(0), next_of(world), 0, previous_of(world), 0); },
      {"a copy is made", "two buffers"});
}

RANK_TEST(P2pSendrecv, ReplaceTouchesNothingOutsideOfTheGroup) {
  NEEDS_RANKS(2);
  ProcessGroup one = world.new_group({0});
  if (!one.is_member()) {
    EXPECT_EQ(one.sendrecv_replace(BufferView(nullptr, 4, DataType::int32), 0, 0, 0, 0).count, 0u);
  }
  world.group().barrier();
}

// --- What goes wrong with one of the two

/// The last two records of this rank: of the receive and of the send.
void expect_ended(const World& world, const char* recv, const char* send) {
  const Json entries = record_of(world)["entries"];
  ASSERT_GE(entries.size(), 2u);
  const Json& of_recv = entries[entries.size() - 2];
  const Json& of_send = entries.back();
  EXPECT_TRUE(of_recv["profiling_name"].get<std::string>().starts_with("hymn:recv")) << of_recv;
  EXPECT_TRUE(of_send["profiling_name"].get<std::string>().starts_with("hymn:send")) << of_send;
  EXPECT_EQ(of_recv["state"], recv);
  EXPECT_EQ(of_send["state"], send);
}

// Its own message has gone out long ago: nobody is to look for the one that it went to.
RANK_TEST(P2pSendrecv, TellsWhoDoesNotSend) {
  NEEDS_RANKS(3);
  ProcessGroup group = fresh_group(world, "ring");
  std::array<std::int32_t, 2> words = {world.rank(), -1};
  if (world.rank() == 1) {
    try {
      group.sendrecv(view_of(words[0]), 2, 3, view_of(words[1]), 0, 3, {.timeout = 500ms});
      ADD_FAILURE() << "received what nobody has sent";
    } catch (const TimeoutError& error) {
      EXPECT_EQ(error.context().missing, std::vector<int>{0}) << error.what();
      EXPECT_NE(std::string(error.what()).find("batch #1"), std::string::npos) << error.what();
    }
    expect_ended(world, "failed", "completed");
    world.group().send(view_of(words[0]), 0, 4);
  } else if (world.rank() == 0) {
    // Waiting it would be part of a deadlock.
    Work told = world.group().irecv(view_of(words[1]), 1, 4);
    while (!told.test()) std::this_thread::sleep_for(1ms);
  }
  world.group().barrier();
  // What was given up has taken nothing with it.
  if (world.rank() == 0) group.send(view_of(words[0]), 1, 3);
  if (world.rank() == 1) {
    EXPECT_EQ(group.recv(view_of(words[1]), 0, 3).source, 0);
  }
  if (world.rank() == 2) {
    group.recv(view_of(words[1]), 1, 3);
    EXPECT_EQ(words[1], 1);
  }
  world.group().barrier();
}

RANK_TEST(P2pSendrecv, RefusesWhatIsTooLong) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "narrow");
  std::vector<std::int32_t> in(4, -1);
  const std::vector<std::int32_t> out(4, world.rank());
  if (world.rank() == 0) {
    group.sendrecv(out, 1, 0, in, 1, 0);
    EXPECT_EQ(in, std::vector<std::int32_t>(4, 1));
  } else if (world.rank() == 1) {
    const BufferView narrow = BufferView(in).slice(0, 1);
    expect_error(ErrorKind::usage, [&] { group.sendrecv(out, 0, 0, narrow, 0, 0); });
    EXPECT_EQ(std::vector(in.begin() + 1, in.end()), std::vector<std::int32_t>(3, -1));
  }
  world.group().barrier();
}

RANK_TEST(P2pSendrecv, EndsWithItsGroup) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  std::array<std::int32_t, 2> words{};
  if (world.rank() == 0) {
    group.recv(view_of(words[0]), 1, 0);
    group.abort("enough");
  } else if (world.rank() == 1) {
    expect_error(ErrorKind::aborted,
                 [&] { group.sendrecv(view_of(words[0]), 0, 0, view_of(words[1]), 0, 0); },
                 {"enough"});
    expect_ended(world, "failed", "completed");
  }
  world.group().barrier();
}

// Beside what is in flight it is a batch.
RANK_TEST(P2pSendrecv, BesideOthersInFlight) {
  NEEDS_RANKS(2);
  std::array<std::int32_t, 4> words = {world.rank(), -1, world.rank() + 10, -1};
  Work received = world.group().irecv(view_of(words[3]), previous_of(world), 1);
  world.group().sendrecv(view_of(words[0]), next_of(world), 0, view_of(words[1]),
                         previous_of(world), 0);
  world.group().send(view_of(words[2]), next_of(world), 1);
  received.wait();
  EXPECT_EQ(words[1], previous_of(world));
  EXPECT_EQ(words[3], previous_of(world) + 10);
}

}  // namespace
}  // namespace hymn::test
