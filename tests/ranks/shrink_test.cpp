// A group is made anew of the members that are left.
#include <set>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// `made` comes from `old`, whose members are all there, on all ranks under the same number.
void expect_shrunk(ProcessGroup& made, const ProcessGroup& old) {
  const Membership& then = old.membership();
  const Membership& now = made.membership();
  EXPECT_EQ(now.ranks, then.ranks);
  EXPECT_EQ(now.parent, then.uid);
  EXPECT_EQ(now.epoch, then.epoch + 1);
  EXPECT_EQ(made.description(), old.description());
  EXPECT_EQ(made.timeout(), old.timeout());
  EXPECT_NE(now.uid, then.uid);
  EXPECT_FALSE(made.is_aborted());
  EXPECT_TRUE(old.is_aborted());
  EXPECT_EQ(made.collective_sequence(), 0u);
  std::vector<std::uint64_t> uids(as_size(made.size()));
  made.all_gather(view_of(now.uid), uids);
  EXPECT_EQ(std::set<std::uint64_t>(uids.begin(), uids.end()).size(), 1u);
}

void expect_messages_pass(ProcessGroup& group) {
  const int next = group.global_rank((group.rank() + 1) % group.size());
  const int before = group.global_rank((group.rank() + group.size() - 1) % group.size());
  if (group.size() == 1) return;
  const std::int32_t mine = group.rank();
  std::int32_t theirs = -1;
  Work sent = group.isend(view_of(mine), next);
  group.recv(view_of(theirs), before);
  sent.wait();
  EXPECT_EQ(theirs, group.group_rank(before));
}

RANK_TEST(Shrink, AfterAnAbort) {
  ProcessGroup group = fresh_group(world, "mended", 50s);
  group.set_timeout(55s);
  if (world.rank() == 0) group.abort("enough is enough");
  failure_of([&] { group.barrier(); }, {"enough is enough"});
  ProcessGroup made = group.shrink();
  expect_shrunk(made, group);
  expect_group_works(made);
  expect_messages_pass(made);
  expect_world_works(world);
}

RANK_TEST(Shrink, GivesUpAGroupThatIsSound) {
  ProcessGroup group = fresh_group(world, "mended");
  for (int epoch = 1; epoch <= 3; ++epoch) {
    world.group().barrier();  // nobody is in the group any more
    ProcessGroup made = group.shrink();
    expect_shrunk(made, group);
    EXPECT_EQ(made.membership().epoch, static_cast<std::uint64_t>(epoch));
    expect_group_works(made);
    failure_of([&] { group.barrier(); }, {"shrinks the group"});
    group.destroy();
    group = made;
  }
  expect_world_works(world);
}

// Who has the new group may do what it likes with it, while others are still on their way out of
// the call that has made it.
RANK_TEST(Shrink, OfWhatItHasJustMade) {
  ProcessGroup group = fresh_group(world, "brief");
  for (int turn = 0; turn < 20; ++turn) group = group.shrink();
  EXPECT_EQ(group.membership().epoch, 20u);
  world.group().barrier();
  expect_group_works(group);
}

RANK_TEST(Shrink, WithWorkInFlight) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "busy");
  std::vector<double> values(1000, 1.0);
  Work work;
  if (world.rank() != 0) work = group.all_reduce_async(values);
  world.group().barrier();
  ProcessGroup made = group.shrink();
  expect_group_works(made);
  if (world.rank() != 0) failure_of([&] { work.wait(); }, {"shrinks the group"});
}

RANK_TEST(Shrink, TheSameGroupTwiceMakesTwo) {
  ProcessGroup group = fresh_group(world, "twice");
  ProcessGroup first = group.shrink();
  ProcessGroup second = group.shrink();
  EXPECT_NE(first.membership().uid, second.membership().uid);
  expect_group_works(first);
  expect_group_works(second);
}

RANK_TEST(Shrink, OfAPartOfTheRanks) {
  NEEDS_RANKS(3);
  ProcessGroup pair = world.new_group({0, 2}, {.description = "pair"});
  if (world.rank() == 0 || world.rank() == 2) {
    ProcessGroup made = pair.shrink();
    expect_shrunk(made, pair);
    expect_messages_pass(made);
  } else {
    const Error error = failure_of([&] { pair.shrink(); }, {"not a member", "pair"});
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
  expect_world_works(world);
  ProcessGroup later = fresh_group(world, "later");  // numbers do not meet
  expect_group_works(later);
}

RANK_TEST(Shrink, OfADestroyedGroup) {
  ProcessGroup group = fresh_group(world, "over");
  group.destroy();
  expect_error(ErrorKind::usage, [&] { group.shrink(); }, {"destroyed", "over"});
  expect_world_works(world);
}

/// `call` must time out within what the making of the group may take.
void expect_nobody_comes(const std::function<void()>& call, Words words) {
  const Error error = failure_of(call, words);
  EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
}

// The limit is for the making of the group in the first place, too, and for the shrinks that all
// call: ranks may have no core for seconds.
constexpr auto making_limit = 6s;

RANK_TEST(Shrink, ThatOneNeverCalls) {
  NEEDS_RANKS(2);
  if (world.size() > 3) return;
  std::vector<int> ranks(ranks_as_size(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  ProcessGroup group =
      world.new_group(ranks, {.description = "uneven", .init_timeout = making_limit});
  const int last = world.size() - 1;
  if (world.rank() != last) {
    const Error error =
        failure_of([&] { group.shrink(); }, {"uneven", "rank " + std::to_string(last)});
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    EXPECT_EQ(error.context().missing, std::vector<int>{last}) << error.what();
  }
  world.group().barrier();
  // Who comes when the others have gone waits as long.
  if (world.rank() == last) expect_nobody_comes([&] { group.shrink(); }, {"uneven"});
  world.group().barrier();
  // Nothing of that stands in the way of all.
  for (int i = 0; i < 2; ++i) {
    ProcessGroup made = group.shrink();
    expect_shrunk(made, group);
    expect_messages_pass(made);
  }
}

}  // namespace
}  // namespace hymn::test
