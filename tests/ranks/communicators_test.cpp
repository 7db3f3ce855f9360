// Communicators that groups of the same ranks use one after the other: never while anything of the
// one before may be in them.
#include <algorithm>

#include "collectives/mpi/mpi_word.hpp"
#include "runtime/mechanisms/mpi_mechanism.hpp"
#include "runtime/mechanisms/mpi_session.hpp"
#include "tests/support/create_group.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const GroupOptions over_mpi{.path = "mpi,mpi_p2p"};
const GroupOptions over_messages{.path = "mpi_p2p"};

void expect_sums(ProcessGroup& group) {
  std::int64_t sum = group.rank() + 1;
  group.all_reduce(view_of(sum));
  EXPECT_EQ(sum, group.size() * (group.size() + 1) / 2);
}

void expect_messages(ProcessGroup& group) {
  std::int64_t word = group.rank() == 0 ? 222 : -1;
  if (group.rank() == 0) group.send(view_of(std::as_const(word)), 1, 5);
  if (group.rank() == 1) {
    group.recv(view_of(word), 0, 5);
    EXPECT_EQ(word, 222);
  }
}

RANK_TEST(Communicators, AreUsedAgain) {
  {
    ProcessGroup first = fresh_group(world, over_mpi);
  }
  EXPECT_EQ(communicators_made_by([&] {
              ProcessGroup second = fresh_group(world, over_mpi);
              expect_sums(second);
            }),
            0);
}

// What one rank has parked is of no use while another still has it.
void expect_a_new_one_while(World& world, int keeper) {
  ProcessGroup first = fresh_group(world, over_mpi);
  expect_sums(first);
  if (world.rank() != keeper) first.destroy();
  ProcessGroup second;
  EXPECT_EQ(communicators_made_by([&] { second = fresh_group(world, over_mpi); }), 1);
  expect_sums(second);
  expect_messages(second);
}
RANK_TEST(Communicators, AreNotUsedAgainWhileTheFirstRankKeepsItsGroup) {
  NEEDS_RANKS(2);
  expect_a_new_one_while(world, 0);
}
RANK_TEST(Communicators, AreNotUsedAgainWhileTheLastRankKeepsItsGroup) {
  NEEDS_RANKS(2);
  expect_a_new_one_while(world, world.size() - 1);
}

// A send that nobody has received stays in MPI, with the buffer, until that is.
RANK_TEST(Communicators, OfAGroupThatWasGivenUpAreNotUsedAgain) {
  NEEDS_RANKS(2);
  static const std::vector<std::int32_t> large(4'000'000, 111);
  {
    ProcessGroup group = fresh_group(world, over_messages);
    Work sent;
    if (world.rank() == 0) sent = group.isend(large, 1, 5);
    world.group().barrier();
    if (world.rank() == 0) group.abort("no luck");
    failure_of([&] { group.barrier(); }, {"no luck"});
    group.destroy();
  }
  ProcessGroup next;
  EXPECT_EQ(communicators_made_by([&] { next = fresh_group(world, over_messages); }), 1);
  expect_messages(next);
  expect_sums(next);
}

RANK_TEST(Communicators, AreClearedOfMessagesThatNobodyReceived) {
  NEEDS_RANKS(2);
  const std::uint64_t before = world.dropped_messages();
  const std::vector<std::int32_t> sizes = {0, 1, 100};
  for (const GroupOptions& options : {over_messages, over_mpi}) {
    {
      ProcessGroup group = fresh_group(world, options);
      for (const std::int32_t size : sizes) {
        const std::vector<std::int32_t> some(static_cast<std::size_t>(size), 111);
        if (world.rank() == 0) group.send(some, 1, 5);
        if (world.rank() == world.size() - 1) group.send(some, 0, 9);
      }
      expect_sums(group);
    }
    EXPECT_EQ(communicators_made_by([&] {
                ProcessGroup next = fresh_group(world, options);
                expect_messages(next);
                expect_sums(next);
              }),
              0);
  }
  const std::uint64_t dropped = world.dropped_messages() - before;
  EXPECT_EQ(dropped, world.rank() < 2 ? 2 * sizes.size() : 0u);
}

// It belongs to the group that it was sent in, wherever the receiver had room for it.
RANK_TEST(Communicators, OfAMessageThatWasTooLongAreNotUsedWrongly) {
  NEEDS_RANKS(2);
  {
    ProcessGroup group = fresh_group(world, over_messages);
    std::vector<std::int32_t> words(10, 111);
    if (world.rank() == 0) group.send(words, 1, 5);
    if (world.rank() == 1) {
      words.resize(2);
      EXPECT_THROW(group.recv(words, 0, 5), UsageError);
    }
    world.group().barrier();
  }
  ProcessGroup next = fresh_group(world, over_messages);
  expect_messages(next);
}

// What has come, or must stay, of a send or receive that is given up is the group's matter.
RANK_TEST(Communicators, AMessageThatCannotBeTakenBackEndsItsGroup) {
  NEEDS_RANKS(2);
  static const std::vector<std::int32_t> large(4'000'000, 111);
  ProcessGroup group = fresh_group(world, over_messages);
  if (world.rank() == 0) {
    std::int32_t word = 0;
    EXPECT_THROW(group.recv(view_of(word), 1, 3, {.timeout = Timeout(20ms)}), TimeoutError);
    EXPECT_FALSE(group.is_aborted());
    Work sent = group.isend(large, 1, 5, {.timeout = Timeout(20ms)});
    EXPECT_THROW(sent.wait(), TimeoutError);
    EXPECT_TRUE(group.is_aborted());
  }
  world.group().barrier();
}

// --- What members offer each other, and choose

using Offers = std::vector<std::vector<std::uint64_t>>;

/// Behind one another: id, sent, received, collectives.
std::optional<ParkedCommunicators::Choice> choice_of(const Offers& offers) {
  return ParkedCommunicators::choose(offers);
}

TEST(ParkedCommunicators, TheOldestThatAllHave) {
  const auto choice = choice_of({{9, 1, 1, 5, 4, 0, 0, 5, 3, 0, 0, 5}, {4, 0, 0, 5, 9, 1, 1, 5}});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->id, 4u);
  EXPECT_EQ(choice->left, 0u);
  EXPECT_FALSE(choice_of({{1, 0, 0, 5}, {2, 0, 0, 5}}));
  EXPECT_FALSE(choice_of({{1, 0, 0, 5}, {}}));
  EXPECT_FALSE(choice_of({{}, {1, 0, 0, 5}}));
}

TEST(ParkedCommunicators, RatherWithoutMessages) {
  const Offers offers = {{1, 2, 0, 5, 2, 3, 1, 5}, {1, 0, 1, 5, 2, 0, 2, 5}};
  EXPECT_EQ(choice_of(offers)->id, 2u);
  EXPECT_EQ(choice_of({{1, 2, 0, 5}, {1, 0, 1, 5}})->left, 1u);
}

TEST(ParkedCommunicators, NotWhereCollectivesDiffer) {
  EXPECT_FALSE(choice_of({{1, 0, 0, 5}, {1, 0, 0, 6}}));
  EXPECT_EQ(choice_of({{1, 0, 0, 5, 2, 0, 0, 7}, {1, 0, 0, 6, 2, 0, 0, 7}})->id, 2u);
}

/// Of a call with this root.
std::uint64_t word_of(OpType type, int root, std::size_t count) {
  std::vector<std::int32_t> data(count);
  Request request;
  request.type = type;
  request.inputs = InputBlocks::whole(ConstBufferView(data));
  request.outputs = OutputBlocks::whole(BufferView(data));
  return mpi_word_of({.request = &request, .peer = root});
}

TEST(MpiTraffic, KnowsCallsApart) {
  const std::vector<std::uint64_t> words = {
      word_of(OpType::broadcast, 0, 1),   word_of(OpType::broadcast, 1, 1),
      word_of(OpType::broadcast, 0, 2),   word_of(OpType::reduce, 0, 1),
      word_of(OpType::all_reduce, -1, 1), word_of(OpType::barrier, -1, 0)};
  for (std::size_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(std::count(words.begin(), words.end(), words[i]), 1) << i;
  // Members may give and get different amounts.
  EXPECT_EQ(word_of(OpType::gather, 0, 1), word_of(OpType::gather, 0, 2));
}

// --- Two that MPI would take for one

bool can_make(const Bytes& offer) { return Unpacker(offer).number() == 0; }

TEST(MpiMechanism, MakesOneAtATimeUnderEachTag) {
  const auto gate = open_mpi(ThreadLevel::multiple);
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &own);
  MpiMechanism mechanism(std::make_shared<MpiExchange>(own, gate), gate, 1 << 20);
  const auto with_uid = [](std::uint64_t uid) {
    Membership membership;
    membership.ranks = {0};
    membership.uid = uid;
    return membership;
  };
  constexpr std::uint64_t period = 32766;
  EXPECT_TRUE(can_make(mechanism.offer(with_uid(7), {})));
  EXPECT_TRUE(can_make(mechanism.offer(with_uid(8), {})));
  EXPECT_FALSE(can_make(mechanism.offer(with_uid(7 + period), {})));
  mechanism.close(with_uid(7), false);
  EXPECT_FALSE(can_make(mechanism.offer(with_uid(7 + 2 * period), {})));
  mechanism.close(with_uid(7 + period), false);
  mechanism.close(with_uid(7 + 2 * period), false);
  EXPECT_TRUE(can_make(mechanism.offer(with_uid(7 + 3 * period), {})));
}

}  // namespace
}  // namespace hymn::test
