// Groups that their members make alone.
#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const GroupOptions members_only{.local_sync = true};

GroupOptions members_within(Duration limit) {
  return {.init_timeout = Timeout(limit), .local_sync = true};
}

/// What each member of the group says, in their order.
std::vector<std::array<std::int64_t, 2>> gathered(ProcessGroup group,
                                                  std::array<std::int64_t, 2> mine) {
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> all(2 * size, -1);
  group.all_gather(std::span<const std::int64_t>(mine), std::span(all));
  std::vector<std::array<std::int64_t, 2>> words;
  for (std::size_t i = 0; i < size; ++i) words.push_back({all[2 * i], all[2 * i + 1]});
  return words;
}

/// The world's groups are still counted alike by all.
void expect_in_step(World& world) {
  ProcessGroup next = fresh_group(world);
  std::uint64_t least = next.membership().uid;
  std::uint64_t most = least;
  world.group().all_reduce(view_of(least), ReduceOp::min);
  world.group().all_reduce(view_of(most), ReduceOp::max);
  EXPECT_EQ(least, most);
  expect_group_works(next);
}

/// Runs `body` on a thread of its own for each other rank.
template <class Body>
void with_each_other(const World& world, Body body) {
  std::vector<std::thread> threads;
  for (int other = 0; other < world.size(); ++other)
    if (other != world.rank()) threads.emplace_back([&body, other] { body(other); });
  for (std::thread& thread : threads) thread.join();
}

// --- As torch.distributed does it, with four ranks; all others have nothing to do with it.

RANK_TEST(LocalSync, test_new_group_local_sync) {
  NEEDS_RANKS(4);
  const int rank = world.rank();
  if (rank < 4) {
    const std::vector<int> within = {rank, (rank + 2) % 4};
    const std::vector<int> without = {(rank + 1) % 4, (rank + 3) % 4};
    EXPECT_FALSE(world.new_group(without, members_only).valid());
    ProcessGroup group = world.new_group(within, members_only);
    ASSERT_TRUE(group.valid());
    EXPECT_EQ(group.membership().ranks, (std::vector<int>{rank % 2, rank % 2 + 2}));
    EXPECT_EQ(group.rank(), rank / 2);
    EXPECT_EQ(group.group_rank(rank), rank / 2);
    EXPECT_EQ(group.global_rank(1 - rank / 2), (rank + 2) % 4);
    expect_error(ErrorKind::usage, [&] { (void)group.group_rank(without[0]); },
                 {"not part of group"});
    expect_group_works(group);
  }
  expect_in_step(world);
}

RANK_TEST(LocalSync, test_new_group_local_sync_sanity_check) {
  NEEDS_RANKS(4);
  const int rank = world.rank();
  const int half = rank / 2;
  if (rank < 4) {
    ProcessGroup group = world.new_group({2 * half, 2 * half + 1}, members_only);
    using Said = std::vector<std::array<std::int64_t, 2>>;
    EXPECT_EQ(gathered(group, {half, rank}), (Said{{half, 2 * half}, {half, 2 * half + 1}}));
  }
  expect_in_step(world);
}

RANK_TEST(LocalSync, test_new_group_local_sync_duplicated_pg) {
  NEEDS_RANKS(4);
  const int rank = world.rank();
  const int half = rank / 2;
  if (rank < 4) {
    std::vector<ProcessGroup> groups;
    for (int i = 0; i < 2; ++i)
      groups.push_back(world.new_group({2 * half + 1, 2 * half}, members_only));
    EXPECT_NE(groups[0].membership().uid, groups[1].membership().uid);
    using Said = std::vector<std::array<std::int64_t, 2>>;
    for (ProcessGroup& group : groups)
      EXPECT_EQ(gathered(group, {half, rank}), (Said{{half, 2 * half}, {half, 2 * half + 1}}));
  }
  expect_in_step(world);
}

// --- Who makes which groups, and in which order.

RANK_TEST(LocalSync, OthersNeedNotCall) {
  for (int past = 1; past <= world.size(); ++past) {
    std::vector<int> ranks = everybody(world);
    ranks.resize(static_cast<std::size_t>(past));
    if (world.rank() >= past) continue;
    ProcessGroup group = world.new_group(ranks, {.description = "some", .local_sync = true});
    EXPECT_EQ(group.description(), "some");
    EXPECT_EQ(group.size(), past);
    expect_group_works(group);
  }
  EXPECT_EQ(fresh_group(world).membership().uid, 1u) << "they are not counted with those of all";
}

// Each rank begins with another partner: only the order of those that share two members is the
// same.
RANK_TEST(LocalSync, ManyAtOnceFromThreads) {
  if (!any_thread_may_call()) return;
  std::mutex mutex;
  std::vector<std::uint64_t> uids;
  with_each_other(world, [&](int other) {
    for (int i = 0; i < 5; ++i) {
      ProcessGroup pair = world.new_group({world.rank(), other}, members_only);
      const int low = std::min(world.rank(), other);
      const int high = std::max(world.rank(), other);
      const std::int64_t word = 1000 * low + 10 * high + i;
      using Said = std::vector<std::array<std::int64_t, 2>>;
      EXPECT_EQ(gathered(pair, {word, world.rank()}), (Said{{word, low}, {word, high}}));
      const std::lock_guard lock(mutex);
      if (world.rank() == low) uids.push_back(pair.membership().uid);
    }
  });
  // Each rank tells of those that it leads.
  const std::size_t most = 5 * ranks_as_size(world);
  uids.resize(most, 0);
  std::vector<std::uint64_t> all(most * ranks_as_size(world));
  world.group().all_gather(std::span<const std::uint64_t>(uids), std::span(all));
  std::erase(all, 0u);
  EXPECT_EQ(all.size(), 5 * ranks_as_size(world) * (ranks_as_size(world) - 1) / 2);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  expect_in_step(world);
}

RANK_TEST(LocalSync, ThreadsMakeGroupsOfTheSameRanks) {
  if (!any_thread_may_call()) return;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<std::uint64_t> uids;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      ProcessGroup group = world.new_group(everybody(world), members_only);
      expect_group_works(group);
      const std::lock_guard lock(mutex);
      uids.insert(group.membership().uid);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(uids.size(), 4u);
  expect_in_step(world);
}

RANK_TEST(LocalSync, BesideWorkOfOtherGroups) {
  if (!any_thread_may_call()) return;
  std::thread maker([&] {
    for (int i = 0; i < 5; ++i) expect_group_works(world.new_group(everybody(world), members_only));
  });
  for (int i = 0; i < 50; ++i) expect_world_works(world);
  for (int i = 0; i < 3; ++i) expect_group_works(fresh_group(world));
  maker.join();
  expect_in_step(world);
}

// In an order in which each rank waits for the one before.
RANK_TEST(LocalSync, AsyncKeepsNoOrder) {
  if (!any_thread_may_call()) return;
  std::vector<Future<ProcessGroup>> pairs;
  for (int step = 0; step < world.size(); ++step) {
    const int other = (2 * world.size() - world.rank() - step) % world.size();
    if (other != world.rank())
      pairs.push_back(world.new_group_async({world.rank(), other}, members_only));
  }
  Future<ProcessGroup> outside =
      world.new_group_async({(world.rank() + 1) % world.size()}, members_only);
  ProcessGroup counted = world.new_group_async(everybody(world)).get();
  EXPECT_EQ(counted.membership().uid, 1u);
  for (Future<ProcessGroup>& pair : pairs) {
    ProcessGroup made = pair.get();
    EXPECT_EQ(made.size(), 2);
    expect_group_works(made);
  }
  EXPECT_EQ(outside.get().valid(), world.size() == 1);
}

// Whichever of hymn's threads is first: each of these has options of its own.
RANK_TEST(LocalSync, AsyncOfTheSameRanksKeepTheirOrder) {
  std::vector<Future<ProcessGroup>> makings;
  for (int i = 0; i < 8; ++i)
    makings.push_back(world.new_group_async(
        everybody(world), {.path = i % 2 == 0 ? "exchange" : "", .local_sync = true}));
  expect_group_works(world.new_group(everybody(world), members_only));
  for (Future<ProcessGroup>& making : makings) expect_group_works(making.get());
  expect_in_step(world);
}

// Rank 1 hears of the number of the first while it waits in the second, on the same thread.
RANK_TEST(LocalSync, OneIsMadeByWhatRunsWhileAnotherIs) {
  NEEDS_RANKS(2);
  if (!any_thread_may_call()) return;
  const std::vector<int> pair = {0, 1};
  std::vector<ProcessGroup> groups(2);
  if (world.rank() == 1) {
    const Future<void> inner =
        world.group().barrier_async().get_future().then([&](const std::vector<BufferView>&) {
          groups[1] = world.new_group(pair, members_within(20s));
        });
    groups[0] = world.new_group(pair, members_within(20s));
    inner.get();
  } else {
    if (world.rank() == 0) std::this_thread::sleep_for(50ms);
    world.group().barrier();
  }
  if (world.rank() == 0) {
    const Future<ProcessGroup> outer = world.new_group_async(pair, members_only);
    const Future<ProcessGroup> inner = world.new_group_async(pair, members_only);
    groups = {outer.get(), inner.get()};
  }
  if (world.rank() < 2)
    for (const ProcessGroup& group : groups) expect_group_works(group);
  expect_in_step(world);
}

RANK_TEST(LocalSync, ManyComeAndGo) {
  NEEDS_RANKS(2);
  for (int i = 0; i < 200 && world.rank() < 2; ++i) {
    ProcessGroup pair = world.new_group({0, 1}, members_only);
    if (i % 20 == 0) expect_group_works(pair);
  }
  expect_in_step(world);
}

RANK_TEST(LocalSync, ShrinksAsAnyOther) {
  ProcessGroup group = world.new_group(everybody(world), members_only);
  ProcessGroup shrunk = group.shrink();
  EXPECT_NE(shrunk.membership().uid, group.membership().uid);
  EXPECT_EQ(shrunk.membership().parent, group.membership().uid);
  EXPECT_NE(shrunk.membership().tag, group.membership().tag);
  expect_group_works(shrunk);
  expect_in_step(world);
}

// --- What goes wrong.

RANK_TEST(LocalSync, BadArgumentsAreRefusedEvenOutside) {
  expect_error(ErrorKind::usage, [&] { world.new_group({}, members_only); }, {"at least one rank"});
  expect_error(ErrorKind::usage, [&] { world.new_group({world.size()}, members_only); },
               {"not all in"});
  expect_error(ErrorKind::config,
               [&] { world.new_group({0}, {.path = "pigeons", .local_sync = true}); });
  expect_in_step(world);
}

RANK_TEST(LocalSync, OptionsThatDifferAreAnError) {
  NEEDS_RANKS(2);
  if (world.rank() < 2) {
    const GroupOptions options{.path = world.rank() == 0 ? "exchange" : "^nccl",
                               .local_sync = true};
    expect_error(ErrorKind::usage, [&] { world.new_group({0, 1}, options); },
                 {"exchange", "^nccl"});
    expect_group_works(world.new_group({0, 1}, members_only));
  }
  expect_in_step(world);
}

RANK_TEST(LocalSync, WhoDoesNotComeIsNamed) {
  NEEDS_RANKS(2);
  // Who leads the group, and who does not.
  for (const int absent : {0, world.size() - 1}) {
    if (world.rank() != absent) {
      const Error error = failure_of(
          [&] { world.new_group(everybody(world), members_within(200ms)); }, {"making "});
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      // Who comes when the leader has given it up, or before that one comes, misses the leader.
      const std::vector<int>& missing = error.context().missing;
      EXPECT_TRUE(std::ranges::count(missing, absent) ||
                  (world.rank() != 0 && std::ranges::count(missing, 0)))
          << error.what();
    }
    world.group().barrier();
    // What was in vain does not count.
    expect_group_works(world.new_group(everybody(world), members_only));
  }
  expect_in_step(world);
}

// Rank 1 has begun to make another one, on another thread, when rank 2 is missed.
RANK_TEST(LocalSync, WhoHasComeIsNotNamed) {
  NEEDS_RANKS(3);
  if (!any_thread_may_call()) return;
  // Ranks that stand still for longer than the limit are late, and rightly named. So there are
  // further attempts, with more time.
  std::int32_t right = 0;
  std::string told;
  for (Duration limit = 500ms; right == 0 && limit <= 4s; limit *= 2) {
    right = 1;
    std::thread other;
    if (world.rank() == 1)
      other = std::thread([&] {
        std::this_thread::sleep_for(limit / 5);
        expect_group_works(world.new_group({1, 2}, members_only));
      });
    if (world.rank() < 2) {
      const Error error =
          failure_of([&] { world.new_group({0, 1, 2}, members_within(limit)); }, {"making "});
      told = error.what();
      const bool names_rank_1 = told.find("rank 1 (") != std::string::npos;
      right = error.context().missing == std::vector{2} && !names_rank_1 ? 1 : 0;
    }
    if (world.rank() == 2) std::this_thread::sleep_for(3 * limit);  // it waits for nobody
    world.group().all_reduce(view_of(right), ReduceOp::min);
    if (world.rank() == 2) expect_group_works(world.new_group({1, 2}, members_only));
    if (other.joinable()) other.join();
  }
  EXPECT_EQ(right, 1) << told;
  expect_in_step(world);
}

// All hear of it while they make another one; that it was in vain may be on its way for longer than
// what tells them to go on.
RANK_TEST(LocalSync, WhatHasBeenHeardOfButWasInVainIsNotTaken) {
  NEEDS_RANKS(2);
  for (int i = 0; i < 3; ++i) {
    std::optional<Future<ProcessGroup>> vain;
    if (world.rank() == 0) vain = world.new_group_async(everybody(world), members_within(200ms));
    world.group().barrier();
    GroupOptions other = members_only;
    other.tag = "other";
    expect_group_works(world.new_group(everybody(world), other));
    if (vain) {
      expect_error(ErrorKind::timeout, [&] { (void)vain->get(); }, {"making group"});
    }
    world.group().barrier();
    expect_group_works(world.new_group(everybody(world), members_within(20s)));
  }
  expect_in_step(world);
}

// Its number must not be taken by who comes when it has been given up.
RANK_TEST(LocalSync, WhoComesTooLateStartsAnew) {
  NEEDS_RANKS(2);
  const std::vector<int> pair = {0, 1};
  for (int i = 0; i < 3 && world.rank() == 0; ++i)
    EXPECT_EQ(failure_of([&] { world.new_group(pair, members_within(50ms)); }, {"making "}).kind(),
              ErrorKind::timeout);
  world.group().barrier();
  if (world.rank() < 2) expect_group_works(world.new_group(pair, members_only));
  expect_in_step(world);
}

}  // namespace
}  // namespace hymn::test
