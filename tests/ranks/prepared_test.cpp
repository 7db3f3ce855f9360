// Calls that are prepared once and made many times.
#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/ring.hpp"

namespace hymn::test {
namespace {

RANK_TEST(Prepared, ACollectiveReadsItsBuffersEachTime) {
  std::int64_t in = 0;
  std::int64_t out = -1;
  const PreparedCall sum = world.group().prepare(Request::all_reduce(view_of(in), view_of(out)));
  EXPECT_EQ(world.group().collective_sequence(), 0u);
  for (int round = 0; round < 20; ++round) {
    in = world.rank() + round;
    sum.run();
    EXPECT_EQ(out, world.size() * (world.size() - 1) / 2 + world.size() * round);
  }
  EXPECT_EQ(world.group().collective_sequence(), 20u);
}

RANK_TEST(Prepared, OthersNeedNotPrepareIt) {
  std::int64_t value = world.rank();
  const Request request = Request::broadcast(view_of(value), 0);
  for (int round = 0; round < 5; ++round) {
    value = world.rank() == 0 ? 100 + round : -1;
    if (world.rank() % 2 == 0)
      world.group().prepare(request).run();
    else
      world.group().broadcast(view_of(value), 0);
    EXPECT_EQ(value, 100 + round);
  }
}

RANK_TEST(Prepared, StartsAndRunsMix) {
  std::int32_t value = 0;
  const PreparedCall sum =
      world.group().prepare(Request::all_reduce(view_of(value), view_of(value)));
  for (int round = 0; round < 6; ++round) {
    value = 1 + round;
    if (round % 2 == 0)
      sum.run();
    else
      sum.start().wait();
    EXPECT_EQ(value, (1 + round) * world.size());
  }
}

RANK_TEST(Prepared, ListsAndCountsAreKept) {
  const auto size = ranks_as_size(world);
  std::vector<std::int64_t> in(1 + as_size(world.rank()), world.rank());
  std::vector<std::int64_t> out(size * (size + 1) / 2, -1);
  PreparedCall gather;
  {
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < size; ++rank) counts.push_back(rank + 1);
    gather = world.group().prepare(
        Request::all_gather(ConstBufferView(in), OutputBlocks::counted(BufferView(out), counts)));
    counts.assign(size, 0);
  }
  for (int round = 0; round < 3; ++round) {
    out.assign(out.size(), -1);
    gather.run();
    std::size_t at = 0;
    for (int rank = 0; rank < world.size(); ++rank)
      for (int i = 0; i <= rank; ++i) EXPECT_EQ(out[at++], rank);
  }
}

RANK_TEST(Prepared, MessagesTellWhatCame) {
  NEEDS_RANKS(2);
  std::int32_t out = 0;
  std::int32_t in[2] = {-1, -1};
  ProcessGroup& group = world.group();
  const PreparedCall send = group.prepare(Request::send(view_of(out), next_of(world), 9));
  const PreparedCall recv =
      group.prepare(Request::recv(BufferView(in, 2, DataType::int32), previous_of(world), 9));
  for (int round = 0; round < 10; ++round) {
    out = 10 * world.rank() + round;
    Work sent = send.start();
    const RecvStatus status = recv.run();
    sent.wait();
    EXPECT_EQ(status.source, previous_of(world));
    EXPECT_EQ(status.count, 1u);
    EXPECT_EQ(in[0], 10 * previous_of(world) + round);
  }
  EXPECT_EQ(in[1], -1);
  EXPECT_EQ(group.p2p_sequence(), 20u);
}

RANK_TEST(Prepared, FaultsAreToldWhenItIsPrepared) {
  std::int32_t value = 0;
  ProcessGroup& group = world.group();
  expect_refused(group, ErrorKind::usage, "broadcast",
                 [&] { (void)group.prepare(Request::broadcast(view_of(value), world.size())); },
                 {"not part of group"});
  expect_refused(group, ErrorKind::usage, "send",
                 [&] { (void)group.prepare(Request::send(view_of(value), world.rank())); },
                 {"itself"});
  expect_error(ErrorKind::usage, [] { PreparedCall().run(); }, {"empty"});
}

RANK_TEST(Prepared, ItsGroupMayEndOrBeGivenUp) {
  std::int32_t value = 0;
  const int self = world.rank();
  const auto alone = [&] {
    ProcessGroup own;
    for (int rank = 0; rank < world.size(); ++rank) {
      const ProcessGroup one = world.new_group({rank});
      if (rank == self) own = one;
    }
    return own;
  };
  ProcessGroup ended = alone();
  ProcessGroup given_up = alone();
  const Request request = Request::all_reduce(view_of(value), view_of(value));
  const PreparedCall first = ended.prepare(request);
  const PreparedCall second = given_up.prepare(request);
  ended.destroy();
  given_up.abort("enough");
  expect_error(ErrorKind::usage, [&] { first.run(); }, {"has been destroyed"});
  expect_error(ErrorKind::usage, [&] { (void)first.start(); }, {"has been destroyed"});
  expect_error(ErrorKind::aborted, [&] { second.run(); }, {"enough"});
  expect_error(ErrorKind::usage, [&] { (void)ended.prepare(request); }, {"has been destroyed"});
  expect_error(ErrorKind::aborted, [&] { (void)given_up.prepare(request); }, {"enough", "prepare"});
}

RANK_TEST(Prepared, OnARankOutsideItDoesNothing) {
  NEEDS_RANKS(2);
  ProcessGroup first = world.new_group({0});
  std::int32_t value = 5;
  const PreparedCall sum = first.prepare(Request::all_reduce(view_of(value), view_of(value)));
  sum.run();
  EXPECT_EQ(value, 5);
  EXPECT_EQ(first.collective_sequence(), world.rank() == 0 ? 1u : 0u);
}

}  // namespace
}  // namespace hymn::test
