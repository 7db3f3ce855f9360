// send, recv, isend, irecv and batches of them.
#include <algorithm>
#include <array>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/ring.hpp"

namespace hymn::test {
namespace {

RANK_TEST(P2p, EveryDtypeRoundARing) {
  NEEDS_RANKS(2);
  for (const DataType dtype : all_dtypes())
    for (const std::size_t count : every_count) {
      const Buffer out = filled(dtype, count, world.rank());
      Buffer in(dtype, count);
      Work sent = world.group().isend(out, next_of(world));
      const RecvStatus status = world.group().recv(in, previous_of(world));
      sent.wait();
      expect_filled(in, previous_of(world));
      EXPECT_TRUE(in.guards_intact());
      EXPECT_EQ(status.source, previous_of(world));
      EXPECT_EQ(status.tag, 0);
      EXPECT_EQ(status.count, count);
    }
}

RANK_TEST(P2p, BlockingPairs) {
  NEEDS_RANKS(2);
  // The last rank of an odd number has no partner.
  const int partner = world.rank() ^ 1;
  if (partner >= world.size()) return;
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100000}}) {
    const Buffer out = filled(DataType::int32, count, world.rank());
    Buffer in(DataType::int32, count);
    if (world.rank() < partner) {
      world.group().send(out, partner, 5);
      world.group().recv(in, partner, 6);
    } else {
      world.group().recv(in, partner, 5);
      world.group().send(out, partner, 6);
    }
    expect_filled(in, partner);
  }
}

RANK_TEST(P2p, TagsAreMatchedOutOfOrder) {
  NEEDS_RANKS(2);
  const std::array tags = {0, 7, ProcessGroup::max_tag};
  if (world.rank() == 0) {
    std::vector<Buffer> messages;
    std::vector<Work> works;
    for (const int tag : tags) messages.push_back(filled(DataType::int64, 5, 0, tag % 10));
    for (std::size_t i = 0; i < tags.size(); ++i)
      works.push_back(world.group().isend(messages[i], 1, tags[i]));
    for (Work& work : works) work.wait();
  } else if (world.rank() == 1) {
    for (auto tag = tags.rbegin(); tag != tags.rend(); ++tag) {
      Buffer in(DataType::int64, 5);
      EXPECT_EQ(world.group().recv(in, 0, *tag).tag, *tag);
      expect_filled(in, 0, *tag % 10);
    }
  }
}

RANK_TEST(P2p, SameTagArrivesInTheOrderSent) {
  NEEDS_RANKS(2);
  constexpr int messages = 50;
  for (int i = 0; i < messages; ++i) {
    if (world.rank() == 0) world.group().send(view_of(i), 1, 3);
    if (world.rank() != 1) continue;
    int got = -1;
    world.group().recv(view_of(got), 0, 3);
    EXPECT_EQ(got, i);
  }
}

RANK_TEST(P2p, AnySource) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  const std::int32_t mine = world.rank() * 10;
  if (world.rank() != 0) {
    group.send(view_of(mine), 0, 4);
    return;
  }
  std::vector<int> sources;
  for (int i = 1; i < world.size(); ++i) {
    std::int32_t got = -1;
    const RecvStatus status = group.recv(view_of(got), any_source, 4);
    EXPECT_EQ(got, status.source * 10);
    EXPECT_EQ(status.tag, 4);
    EXPECT_EQ(status.count, 1u);
    sources.push_back(status.source);
  }
  std::sort(sources.begin(), sources.end());
  for (int i = 1; i < world.size(); ++i) EXPECT_EQ(sources[as_size(i - 1)], i);
}

RANK_TEST(P2p, StatusOfAnAsynchronousReceive) {
  NEEDS_RANKS(2);
  if (world.rank() == 1) {
    const Buffer out = filled(DataType::float32, 3, 1);
    world.group().send(out, 0, 9);
  } else if (world.rank() == 0) {
    Buffer in(DataType::float32, 8);
    Work work = world.group().irecv(in, any_source, 9);
    work.wait();
    EXPECT_EQ(work.status().source, 1);
    EXPECT_EQ(work.status().tag, 9);
    EXPECT_EQ(work.status().count, 3u);
    EXPECT_EQ(work.type(), OpType::recv);
  }
}

RANK_TEST(P2p, ShorterMessageLeavesTheRestOfTheBuffer) {
  NEEDS_RANKS(2);
  if (world.rank() == 1) {
    const Buffer out = filled(DataType::int32, 6, 1);
    world.group().send(out, 0);
  } else if (world.rank() == 0) {
    Buffer in(DataType::int32, 10);
    EXPECT_EQ(world.group().recv(in, 1).count, 6u);
    expect_filled(in.slice(0, 6), 1);
    expect_untouched(in.slice(6, 4));
  }
}

RANK_TEST(P2p, LongerMessageIsAnError) {
  NEEDS_RANKS(2);
  if (world.rank() == 1) {
    // Small enough to be sent off whether or not it is received.
    const Buffer out = filled(DataType::int32, 10, 1);
    error_text([&] { world.group().isend(out, 0).wait(); });
  } else if (world.rank() == 0) {
    Buffer in(DataType::int32, 6);
    expect_error(ErrorKind::usage, [&] { world.group().recv(in, 1); },
                 {"rank 0", "default_pg", "recv"});
    EXPECT_TRUE(in.guards_intact());
  }
  world.group().barrier();  // the message is lost, but the group goes on
}

RANK_TEST(P2p, ZeroByteMessages) {
  NEEDS_RANKS(2);
  if (world.rank() == 0) {
    world.group().send(ConstBufferView(), 1, 1);
    world.group().isend(ConstBufferView(nullptr, 0, DataType::complex128), 1, 2).wait();
  } else if (world.rank() == 1) {
    Buffer in(DataType::uint8, 4);
    EXPECT_EQ(world.group().recv(in, 0, 1).count, 0u);
    EXPECT_EQ(world.group().recv(BufferView(nullptr, 0, DataType::complex128), 0, 2).count, 0u);
    expect_untouched(in);
  }
}

RANK_TEST(P2p, BatchRingIsOneWork) {
  NEEDS_RANKS(2);
  const Buffer right = filled(DataType::float64, 65, world.rank(), 1);
  const Buffer left = filled(DataType::float64, 33, world.rank(), 2);
  Buffer from_left(DataType::float64, 65);
  Buffer from_right(DataType::float64, 40);
  const std::array operations = {
      P2POp::recv(from_left, previous_of(world), 1), P2POp::send(right, next_of(world), 1),
      P2POp::send(left, previous_of(world), 2), P2POp::recv(from_right, next_of(world), 2)};
  Work work = world.group().batch_isend_irecv(operations);
  work.wait();
  EXPECT_TRUE(work.is_completed());
  EXPECT_EQ(work.type(), OpType::batch);
  expect_filled(from_left, previous_of(world), 1);
  expect_filled(from_right.slice(0, 33), next_of(world), 2);
  const std::vector<RecvStatus> statuses = work.statuses();
  ASSERT_EQ(statuses.size(), 2u);
  EXPECT_EQ(statuses[0].source, previous_of(world));
  EXPECT_EQ(statuses[0].count, 65u);
  EXPECT_EQ(statuses[1].source, next_of(world));
  EXPECT_EQ(statuses[1].count, 33u);
}

RANK_TEST(P2p, BatchOfEverybodyWithEverybody) {
  BlockBuffer in(DataType::int32, world.size(), 7);
  BlockBuffer out(DataType::int32, world.size(), 7);
  out.fill_for_each(world.rank());
  fill(in.block(world.rank()), world.rank(), world.rank());  // nobody sends to itself
  std::vector<P2POp> operations;
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == world.rank()) continue;
    operations.push_back(P2POp::send(out.block(peer), peer));
    operations.push_back(P2POp::recv(in.block(peer), peer));
  }
  world.group().batch_isend_irecv(operations).wait();
  in.expect_from_all(world.rank());
}

RANK_TEST(P2p, FaultInABatchSendsNothing) {
  NEEDS_RANKS(2);
  const Buffer out = filled(DataType::int32, 4, world.rank());
  Buffer in(DataType::int32, 4);
  const std::array faulty = {P2POp::send(out, next_of(world)), P2POp::recv(in, world.size())};
  expect_refused(world.group(), ErrorKind::usage, "recv",
                 [&] { (void)world.group().batch_isend_irecv(faulty); });
  // Had the send gone out, this would receive it instead.
  const Buffer right = filled(DataType::int32, 4, world.rank(), 3);
  const std::array good = {P2POp::send(right, next_of(world)), P2POp::recv(in, previous_of(world))};
  world.group().batch_isend_irecv(good).wait();
  expect_filled(in, previous_of(world), 3);
}

RANK_TEST(P2p, MessagesOfABatchDoNotShareMemory) {
  NEEDS_RANKS(2);
  std::vector<std::int32_t> values(8, world.rank());
  const BufferView first = BufferView(values).slice(0, 4);
  const BufferView second = BufferView(values).slice(3, 4);
  const BufferView behind = BufferView(values).slice(4, 4);
  const int next = next_of(world);
  const int previous = previous_of(world);
  const auto refused = [&](const std::array<P2POp, 2>& operations, Words words) {
    expect_refused(
        world.group(), ErrorKind::usage, "batch",
        [&] { (void)world.group().batch_isend_irecv(operations); }, words);
  };
  refused({P2POp::send(first, next), P2POp::recv(second, previous)},
          {"messages #1 and #2 use the same memory"});
  refused({P2POp::recv(first, previous), P2POp::recv(first, previous)},
          {"messages #1 and #2 use the same memory"});
  const int self = world.rank();
  std::vector<std::int32_t> own(4);
  const std::array both = {P2POp::send(first, self, 1), P2POp::recv(own, self, 1),
                           P2POp::send(behind, self, 2), P2POp::recv(own, self, 2)};
  expect_refused(world.group(), ErrorKind::usage, "batch",
                 [&] { (void)world.group().batch_isend_irecv(both); },
                 {"messages #1 and #3 use the same memory"});
  // What is only read may be the same.
  const std::array twice = {P2POp::send(first, next), P2POp::send(first, next),
                            P2POp::recv(behind, previous)};
  Work work = world.group().batch_isend_irecv(twice);
  std::vector<std::int32_t> again(4);
  world.group().recv(again, previous);
  work.wait();
  EXPECT_EQ(again, std::vector<std::int32_t>(4, previous));
  EXPECT_EQ(values.back(), previous);
}

RANK_TEST(P2p, SelfSendIsRefused) {
  Buffer buffer(DataType::int32, 4);
  const int self = world.rank();
  expect_refused(world.group(), ErrorKind::usage, "send", [&] { world.group().send(buffer, self); },
                 {"itself"});
  expect_refused(world.group(), ErrorKind::usage, "send",
                 [&] { (void)world.group().isend(buffer, self); }, {"itself"});
  expect_refused(world.group(), ErrorKind::usage, "recv", [&] { world.group().recv(buffer, self); },
                 {"itself"});
}

RANK_TEST(P2p, MessagesAndCollectivesDoNotMix) {
  NEEDS_RANKS(2);
  // A receive stays open across collectives; its message comes after them.
  Buffer in(DataType::float32, 12);
  Work received = world.group().irecv(in, previous_of(world), 1);
  for (int i = 0; i < 5; ++i) {
    std::int32_t one = 1;
    world.group().all_reduce(view_of(one));
    EXPECT_EQ(one, world.size());
  }
  EXPECT_FALSE(received.test());
  world.group().barrier();
  const Buffer out = filled(DataType::float32, 12, world.rank());
  Work sent = world.group().isend(out, next_of(world), 1);
  received.wait();
  sent.wait();
  expect_filled(in, previous_of(world));
}

RANK_TEST(P2p, SequencesCountFromOne) {
  NEEDS_RANKS(2);
  EXPECT_EQ(world.group().p2p_sequence(), 0u);
  Buffer in(DataType::int8, 2);
  const Buffer out = filled(DataType::int8, 2, world.rank());
  Work first = world.group().irecv(in, previous_of(world));
  Work second = world.group().isend(out, next_of(world));
  EXPECT_EQ(first.sequence(), 1u);
  EXPECT_EQ(second.sequence(), 2u);
  first.wait();
  second.wait();
  EXPECT_EQ(world.group().p2p_sequence(), 2u);
}

RANK_TEST(P2p, PeersOfASubgroupAreGlobalRanks) {
  NEEDS_RANKS(3);
  ProcessGroup ends = world.new_group({0, world.size() - 1});
  if (!ends.is_member()) return;
  const int peer = world.rank() == 0 ? world.size() - 1 : 0;
  const Buffer out = filled(DataType::uint8, 77, world.rank());
  Buffer in(DataType::uint8, 77);
  Work sent = ends.isend(out, peer);
  const RecvStatus status = ends.recv(in, any_source);
  sent.wait();
  EXPECT_EQ(status.source, peer);
  expect_filled(in, peer);
  expect_error(ErrorKind::usage, [&] { ends.send(out, 1); }, {"not part of group"});
}

}  // namespace
}  // namespace hymn::test
