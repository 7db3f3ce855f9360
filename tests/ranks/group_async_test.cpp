// Groups that are made while the application goes on.
#include <algorithm>
#include <stdexcept>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

std::vector<int> ranks_below(int past) {
  std::vector<int> ranks(static_cast<std::size_t>(past));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

RANK_TEST(GroupAsync, WorksAsAnyOther) {
  Future<ProcessGroup> making =
      world.new_group_async(ranks_below(world.size()), {.description = "later"});
  for (int i = 0; i < 20; ++i) expect_world_works(world);
  ProcessGroup group = making.get();
  EXPECT_TRUE(making.is_ready());
  EXPECT_EQ(group.description(), "later");
  EXPECT_EQ(group.membership().uid, 1u);
  expect_group_works(group);
  EXPECT_EQ(making.get().membership().uid, 1u);  // the same group again
}

RANK_TEST(GroupAsync, KeepsTheOrderOfAllCalls) {
  // Ranks differ in which of them they wait for.
  std::vector<Future<ProcessGroup>> makings;
  std::vector<ProcessGroup> groups;
  for (int past = 1; past <= world.size(); ++past) {
    makings.push_back(world.new_group_async(ranks_below(past)));
    if ((past + world.rank()) % 2 == 0)
      groups.push_back(world.new_group(ranks_below(past)));
    else
      groups.push_back(world.new_group_async(ranks_below(past)).get());
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ProcessGroup made = makings[i].get();
    EXPECT_EQ(made.membership().uid, 2 * i + 1);
    EXPECT_EQ(groups[i].membership().uid, 2 * i + 2);
    EXPECT_EQ(made.is_member(), world.rank() <= static_cast<int>(i));
    if (!made.is_member()) continue;
    expect_group_works(made);
    expect_group_works(groups[i]);
  }
}

RANK_TEST(GroupAsync, ContinuationsUseTheGroup) {
  Future<int> sum = world.new_group_async(ranks_below(world.size())).then([](ProcessGroup group) {
    std::int32_t one = 1;
    group.all_reduce(view_of(one));
    return static_cast<int>(one);
  });
  EXPECT_EQ(sum.get(30s), world.size());
}

RANK_TEST(GroupAsync, ContinuationsMakeGroups) {
  Future<ProcessGroup> second =
      world.new_group_async(ranks_below(world.size())).then([&world](const ProcessGroup&) {
        return world.new_group(ranks_below(world.size()));
      });
  expect_group_works(second.get(30s));
}

RANK_TEST(GroupAsync, BadArgumentsAreThrownAtOnce) {
  expect_error(ErrorKind::usage, [&] { (void)world.new_group_async({}); }, {"at least one rank"});
  expect_error(ErrorKind::usage, [&] { (void)world.new_group_async({world.size()}); },
               {"not all in"});
  expect_error(ErrorKind::config, [&] { (void)world.new_group_async({0}, {.path = "pigeons"}); });
  // None of them counts.
  EXPECT_EQ(world.new_group_async({0}).get().membership().uid, 1u);
}

RANK_TEST(GroupAsync, OptionsThatDifferAreAnErrorOfTheFuture) {
  NEEDS_RANKS(2);
  Future<ProcessGroup> making = world.new_group_async(
      ranks_below(world.size()), {.path = world.rank() == 0 ? "exchange" : "^nccl"});
  expect_error(ErrorKind::usage, [&] { making.get(); }, {"exchange", "^nccl"});
  expect_world_works(world);
}

RANK_TEST(GroupAsync, OfWhoDoesNotComeTellsSo) {
  NEEDS_RANKS(2);
  // Where groups are made at once this would keep the last rank from coming at all.
  if (!any_thread_may_call()) return;
  const bool comes = world.rank() != world.size() - 1;
  if (comes) {
    Future<ProcessGroup> making =
        world.new_group_async(ranks_below(world.size()), {.init_timeout = 100ms});
    const Error error = failure_of([&] { making.get(); }, {"making group 1"});
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    // By then that one may wait for this one, too.
    EXPECT_TRUE(std::ranges::count(error.context().missing, world.size() - 1)) << error.what();
  }
  expect_world_works(world);
}

RANK_TEST(GroupAsync, IsMadeBeforeTheWorldEnds) {
  Future<ProcessGroup> making = world.new_group_async(ranks_below(world.size()));
  world.destroy();
  EXPECT_TRUE(making.is_ready());
  EXPECT_TRUE(making.get().is_destroyed());
}

RANK_TEST(GroupAsync, KeepsNobodyWhoLeavesByAnException) {
  NEEDS_RANKS(2);
  if (!any_thread_may_call()) return;
  expect_world_works(world);  // who leaves breaks off what others still make with it
  // Long after the test has been given up.
  const GroupOptions options{.init_timeout = 1h};
  std::optional<Future<ProcessGroup>> making;
  try {
    World leaving = std::move(world);
    std::int32_t never = 0;
    if (leaving.rank() == 0)
      making = leaving.new_group_async(ranks_below(leaving.size()), options);
    else  // until rank 0 is gone, which must not see the others go first
      (void)error_text([&] { leaving.group().recv(view_of(never), 0); });
    throw std::runtime_error("no luck");  // all do: who stays would wait at the end for who leaves
  } catch (const std::runtime_error&) {
  }
  if (making)
    expect_error(ErrorKind::aborted, [&] { making->get(); }, {"leaves", "making group 1"});
}

}  // namespace
}  // namespace hymn::test
