// split: as MPI_Comm_split, also where the keys order members against their ranks.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using testing::ElementsAre;

/// The ranks of all, from the last to the first.
std::vector<int> backwards(const World& world) {
  std::vector<int> ranks = everybody(world);
  std::ranges::reverse(ranks);
  return ranks;
}

RANK_TEST(Split, ByColor) {
  const int color = world.rank() % 2;
  const ProcessGroup half = world.split(color);
  std::vector<int> expected;
  for (int rank = color; rank < world.size(); rank += 2) expected.push_back(rank);
  EXPECT_EQ(half.membership().ranks, expected);
  EXPECT_EQ(half.rank(), world.rank() / 2);
  EXPECT_EQ(ProcessGroup(half).all_reduced(world.rank() + 1, ReduceOp::max), expected.back() + 1);
}

RANK_TEST(Split, WithoutAColorThereIsNoGroup) {
  const bool is_in = world.rank() % 3 != 1;
  ProcessGroup some = world.split(is_in ? 7 : ProcessGroup::no_color);
  EXPECT_EQ(some.valid(), is_in);
  if (is_in) some.barrier();
}

RANK_TEST(Split, EqualKeysKeepTheOrder) {
  const ProcessGroup group = world.split(0, world.rank() == 0 ? 1 : 0);
  std::vector<int> expected = everybody(world);
  std::ranges::rotate(expected, expected.begin() + 1);
  EXPECT_EQ(group.membership().ranks, expected);
  EXPECT_EQ(group.rank(), world.rank() == 0 ? world.size() - 1 : world.rank() - 1);
  for (int place = 0; place < group.size(); ++place) {
    EXPECT_EQ(group.global_rank(place), expected[static_cast<std::size_t>(place)]);
    EXPECT_EQ(group.group_rank(group.global_rank(place)), place);
  }
}

/// The group rank is the place by key: blocks come, and what has an order is reduced, in it.
RANK_TEST(Split, CollectivesGoByKey) {
  ProcessGroup group = world.split(3, -world.rank());
  const std::vector<int> ranks = backwards(world);
  EXPECT_EQ(group.membership().ranks, ranks);
  const int mine = world.rank();
  std::vector<int> all(ranks.size(), -1);
  group.all_gather(mine, all);
  EXPECT_EQ(all, ranks);
  int sum = 0;
  group.scan(mine, sum);
  int expected = 0;
  for (int rank = world.size() - 1; rank >= world.rank(); --rank) expected += rank;
  EXPECT_EQ(sum, expected);
  int own = -1;
  group.scatter(all, own, world.size() - 1);
  EXPECT_EQ(own, mine);
  std::vector<int> many(5000, mine);
  group.all_reduce(many, ReduceOp::max);
  EXPECT_THAT(many, testing::Each(world.size() - 1));
  for (int root = 0; root < world.size(); ++root) {
    std::vector<int> told(300, mine);
    group.broadcast(told, root);
    EXPECT_THAT(told, testing::Each(root));
  }
  std::vector<int> swapped(ranks.size(), -1);
  std::vector<int> given(ranks.size());
  for (std::size_t to = 0; to < given.size(); ++to) given[to] = 100 * mine + ranks[to];
  group.all_to_all(given, swapped);
  for (std::size_t from = 0; from < swapped.size(); ++from)
    EXPECT_EQ(swapped[from], 100 * ranks[from] + mine);
}

/// Peers and roots are global ranks, whatever the order.
RANK_TEST(Split, MessagesGoByGlobalRank) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.split(0, -world.rank());
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  const int mine = world.rank();
  int got = -1;
  const Work sent = group.isend(mine, next, 5);
  const RecvStatus status = group.recv(got, before, 5);
  Work(sent).wait();
  EXPECT_EQ(got, before);
  EXPECT_EQ(status.source, before);
  const Work again = group.isend(mine, before, 6);
  EXPECT_EQ(group.recv(got, any_source, 6).source, next);
  Work(again).wait();
  group.barrier();
}

RANK_TEST(Split, IsSplitAgain) {
  NEEDS_RANKS(3);
  ProcessGroup turned = world.split(0, -world.rank());
  // By the order there: equal keys.
  ProcessGroup again = turned.split(turned.rank() == 0 ? 1 : 0);
  std::vector<int> expected = backwards(world);
  expected.erase(expected.begin());
  if (turned.rank() == 0)
    EXPECT_THAT(again.membership().ranks, ElementsAre(world.size() - 1));
  else
    EXPECT_EQ(again.membership().ranks, expected);
  EXPECT_EQ(again.membership().parent, turned.membership().uid);
  again.barrier();
}

RANK_TEST(Split, SameRanksInTwoOrdersAreTwoGroups) {
  NEEDS_RANKS(2);
  ProcessGroup forwards = world.split(0, world.rank(), {.tag = "both"});
  ProcessGroup turned = world.split(0, -world.rank(), {.tag = "both"});
  EXPECT_EQ(forwards.rank(), world.rank());
  EXPECT_EQ(turned.rank(), world.size() - 1 - world.rank());
  EXPECT_NE(forwards.membership().uid, turned.membership().uid);
  EXPECT_EQ(world.find_group("both", everybody(world)).membership().uid, turned.membership().uid);
  ProcessGroup once_more = world.split(0, world.rank(), {.tag = "both"});
  EXPECT_EQ(once_more.membership().uid, forwards.membership().uid);
  once_more.barrier();
}

RANK_TEST(Split, RefusesOtherColorsBelowZero) {
  expect_error(ErrorKind::usage, [&] { world.split(-2); }, {"-2 is no color", "split"});
  world.group().barrier();
}

RANK_TEST(Split, WrongOptionsAreRefusedBeforeAnythingIsSent) {
  const std::uint64_t before = world.group().collective_sequence();
  if (world.rank() == 0) {
    expect_error(ErrorKind::usage, [&] { (void)world.group().split(0, 0, {.tag = "hymn:7"}); },
                 {"hymn:7"});
    expect_error(ErrorKind::config, [&] { (void)world.group().split(0, 0, {.path = "road"}); },
                 {"road"});
  }
  EXPECT_EQ(world.group().collective_sequence(), before);
  expect_group_works(world.group().split(0));
}

RANK_TEST(Split, WhoHasRunOutOfInputIsNamed) {
  NEEDS_RANKS(2);
  std::string text;
  Join::shadow_all({world.group()}, [&] {
    if (world.rank() != 0) text = error_text([&] { (void)world.group().split(0); });
  });
  if (world.rank() != 0) {
    EXPECT_NE(text.find("rank 0 takes no part in it"), std::string::npos) << text;
  }
  expect_group_works(world.group().split(0));
}

/// A rank outside is warned, and gets nothing.
RANK_TEST(Split, OutsideThereIsNothingToSplit) {
  NEEDS_RANKS(2);
  ProcessGroup first = world.new_group({0});
  const ProcessGroup part = first.split(0);
  EXPECT_EQ(part.valid(), world.rank() == 0);
  world.group().barrier();
}

RANK_TEST(Split, Shrinks) {
  NEEDS_RANKS(2);
  ProcessGroup turned = world.split(0, -world.rank());
  ProcessGroup left = turned.shrink();
  EXPECT_EQ(left.membership().ranks, backwards(world));
  EXPECT_EQ(left.all_reduced(1), world.size());
}

}  // namespace
}  // namespace hymn::test
