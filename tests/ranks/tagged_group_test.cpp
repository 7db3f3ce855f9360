// Groups by tag and ranks.
#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

bool same(const ProcessGroup& one, const ProcessGroup& other) {
  return one.valid() && other.valid() && one.membership().uid == other.membership().uid;
}

/// All ranks call for each pair of neighbours; what this rank is in.
ProcessGroup own_pair(World& world, const std::string& tag) {
  ProcessGroup own;
  for (int first = 0; first + 1 < world.size(); first += 2) {
    ProcessGroup pair = world.new_group({first, first + 1}, {.tag = tag});
    if (pair.is_member()) own = pair;
  }
  return own;
}

ProcessGroup looked_up(World& world, const ProcessGroup& group) {
  return world.find_group(group.membership().tag, group.membership().ranks);
}

// --- As torch.distributed does it; with an odd number of ranks the last has no group.

RANK_TEST(PgTag, test_pg_creation_with_tag) {
  NEEDS_RANKS(2);
  const ProcessGroup blu = own_pair(world, "blu");
  const ProcessGroup again = own_pair(world, "blu");
  const ProcessGroup other = own_pair(world, "blu2");
  const ProcessGroup untagged = own_pair(world, "");
  const ProcessGroup untagged_too = own_pair(world, "");
  if (!blu.valid()) return;
  EXPECT_TRUE(same(blu, again));
  EXPECT_FALSE(same(blu, other));
  EXPECT_FALSE(same(blu, untagged));
  EXPECT_FALSE(same(untagged, untagged_too));
  for (const ProcessGroup& group : {blu, other, untagged, untagged_too}) expect_group_works(group);
}

RANK_TEST(PgTag, test_pg_lookup_roundtrip) {
  NEEDS_RANKS(2);
  for (const std::string tag : {"blu", "blu2", "", ""}) {
    const ProcessGroup group = own_pair(world, tag);
    if (!group.valid()) continue;
    EXPECT_TRUE(same(looked_up(world, group), group));
    EXPECT_EQ(group.membership().tag == tag, !tag.empty());
  }
}

RANK_TEST(PgTag, test_pg_lookup_with_tag) {
  NEEDS_RANKS(2);
  const ProcessGroup blu = own_pair(world, "blu");
  const ProcessGroup bla = own_pair(world, "bla");
  const ProcessGroup untagged = own_pair(world, "");
  if (!blu.valid()) return;
  EXPECT_TRUE(same(world.find_group("blu", bla.membership().ranks), blu));
  EXPECT_TRUE(same(world.find_group("blu", untagged.membership().ranks), blu));
  EXPECT_TRUE(same(looked_up(world, blu), blu));
  EXPECT_FALSE(world.find_group("blue", blu.membership().ranks).valid());
}

RANK_TEST(PgTag, test_find_or_create_pg) {
  NEEDS_RANKS(2);
  std::vector<int> ranks = everybody(world);
  ranks.resize(ranks.size() / 2 * 2);
  ProcessGroup found;
  if (world.rank() < static_cast<int>(ranks.size())) {
    found = world.find_or_create_group("blu", ranks, 2);
    expect_group_works(found);
    EXPECT_EQ(found.membership().ranks[0], world.rank() / 2 * 2);
    EXPECT_TRUE(same(world.find_or_create_group("blu", ranks, 2), found));
  }
  const ProcessGroup blu = own_pair(world, "blu");
  EXPECT_EQ(found.valid(), same(found, blu));
}

RANK_TEST(PgTag, test_find_root_pg) {
  EXPECT_TRUE(same(world.find_group("", everybody(world)), world.group()));
  EXPECT_EQ(world.group().membership().tag, "");
  EXPECT_TRUE(
      same(world.find_or_create_group("", everybody(world), ranks_as_size(world)), world.group()));
}

// --- What a tag is.

RANK_TEST(Tags, TheOrderOfRanksDoesNotMatter) {
  std::vector<int> backwards = everybody(world);
  std::ranges::reverse(backwards);
  const ProcessGroup group = world.new_group(backwards, {.tag = "all"});
  EXPECT_TRUE(same(world.find_group("all", everybody(world)), group));
  EXPECT_TRUE(same(world.find_group("all", backwards), group));
  EXPECT_FALSE(same(group, world.group()));
}

// Only the last handle would end it otherwise, on each rank at another time.
RANK_TEST(Tags, AGroupLivesWithoutHandles) {
  const std::uint64_t uid = world.new_group(everybody(world), {.tag = "all"}).membership().uid;
  ProcessGroup found = world.find_group("all", everybody(world));
  ASSERT_TRUE(found.valid());
  EXPECT_EQ(found.membership().uid, uid);
  expect_group_works(found);
  // One that has no tag of the program's goes with its handle.
  ProcessGroup untagged = fresh_group(world);
  const std::string tag = untagged.membership().tag;
  EXPECT_TRUE(world.find_group(tag, everybody(world)).valid());
  untagged = ProcessGroup();
  EXPECT_FALSE(world.find_group(tag, everybody(world)).valid());
}

RANK_TEST(Tags, WhatIsDestroyedIsMadeAnew) {
  ProcessGroup old = world.new_group(everybody(world), {.tag = "all"});
  old.destroy();
  EXPECT_FALSE(world.find_group("all", everybody(world)).valid());
  ProcessGroup made = world.new_group(everybody(world), {.tag = "all"});
  EXPECT_FALSE(same(made, old));
  expect_group_works(made);
}

RANK_TEST(Tags, OutsidersGetTheSameGroupAgain) {
  NEEDS_RANKS(2);
  ProcessGroup first = world.new_group({0}, {.tag = "first"});
  EXPECT_EQ(first.is_member(), world.rank() == 0);
  EXPECT_TRUE(same(world.new_group({0}, {.tag = "first"}), first));
  // Its member makes it anew; others know nothing of that, and stay in step.
  if (world.rank() == 0) first.destroy();
  ProcessGroup next = world.new_group({0}, {.tag = "first"});
  EXPECT_EQ(same(next, first), world.rank() != 0);
  EXPECT_EQ(fresh_group(world).membership().uid, 1u);
  EXPECT_FALSE(world.new_group({1}, {.local_sync = true, .tag = "one"}).valid() &&
               world.rank() != 1);
}

RANK_TEST(Tags, ThreadsThatAskForTheSameGetOneGroup) {
  if (!any_thread_may_call()) return;
  std::mutex mutex;
  std::set<std::uint64_t> uids;
  std::vector<std::thread> threads;
  // Ranks differ in how many ask.
  for (int i = 0; i <= 1 + world.rank() % 3; ++i)
    threads.emplace_back([&] {
      const ProcessGroup group =
          world.find_or_create_group("all", everybody(world), ranks_as_size(world));
      const std::lock_guard lock(mutex);
      uids.insert(group.membership().uid);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(uids.size(), 1u);
  expect_group_works(world.find_group("all", everybody(world)));
}

RANK_TEST(Tags, AsyncFindsIt) {
  ProcessGroup made = world.new_group_async(everybody(world), {.tag = "all"}).get();
  EXPECT_TRUE(same(world.new_group_async(everybody(world), {.tag = "all"}).get(), made));
  expect_group_works(made);
}

// It takes the place of the one that it was made of.
RANK_TEST(Tags, AShrunkGroupKeepsIts) {
  ProcessGroup group = world.new_group(everybody(world), {.tag = "all"});
  ProcessGroup shrunk = group.shrink();
  EXPECT_EQ(shrunk.membership().tag, "all");
  EXPECT_TRUE(same(world.find_group("all", everybody(world)), shrunk));
  const std::uint64_t uid = shrunk.membership().uid;
  shrunk = {};  // it lives without a handle, as the one before did
  EXPECT_EQ(world.find_group("all", everybody(world)).membership().uid, uid);
  ProcessGroup of_all = fresh_group(world).shrink();
  EXPECT_TRUE(same(looked_up(world, of_all), of_all));
}

// It would wait for itself.
RANK_TEST(Tags, ACallbackIsToldThatItsThreadMakesTheGroup) {
  NEEDS_RANKS(2);
  if (world.rank() == 1) {
    const Future<void> inner =
        world.group().barrier_async().get_future().then([&](const std::vector<BufferView>&) {
          send_token(world, 0);  // which comes to the group only now
          (void)world.find_or_create_group("pair", {0, 1}, 2);
        });
    expect_group_works(world.find_or_create_group("pair", {0, 1}, 2));
    expect_error(ErrorKind::usage, [&] { inner.get(); }, {"'pair'", "calls back"});
  } else {
    world.group().barrier();
    if (world.rank() == 0) {
      await_token(world, 1);
      expect_group_works(world.find_or_create_group("pair", {0, 1}, 2));
    }
  }
  world.group().barrier();
}

// Each of them waits for the other, which makes another group.
RANK_TEST(Tags, WhoAsksForAnotherIsToldSo) {
  NEEDS_RANKS(2);
  const std::string longer(200, 'z');
  std::string text;
  std::int32_t is_told = 0;
  // Again where rank 1 has not come to it within rank 0's limit.
  for (int turn = 0; turn < 5 && is_told == 0; ++turn) {
    if (world.rank() < 2) {
      const GroupOptions options{.init_timeout = world.rank() == 0 ? 300ms : 900ms,
                                 .local_sync = true,
                                 .tag = world.rank() == 0 ? "one" : "other" + longer};
      const Error error = failure_of([&] { world.new_group({0, 1}, options); }, {"making "});
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      text = error.what();
      EXPECT_NE(text.find(world.rank() == 0 ? "with tag 'one'" : "with tag 'otherzz"),
                std::string::npos)
          << text;
      EXPECT_EQ(text.find(longer), std::string::npos) << text;
    }
    if (text.find("a group of ranks 0-1 with tag 'otherzz") != std::string::npos) is_told = 1;
    world.group().broadcast(view_of(is_told), 0);
  }
  EXPECT_EQ(is_told, 1) << text;
}

RANK_TEST(Tags, BadArgumentsAreRefused) {
  const std::vector<int> all = everybody(world);
  const std::size_t size = ranks_as_size(world);
  expect_error(ErrorKind::usage, [&] { world.new_group(all, {.tag = "hymn:7"}); }, {"'hymn:'"});
  expect_error(ErrorKind::usage, [&] { (void)world.find_group("x", {}); }, {"at least one rank"});
  expect_error(ErrorKind::usage, [&] { (void)world.find_group("x", {0, 0}); }, {"twice"});
  expect_error(ErrorKind::usage, [&] { (void)world.find_or_create_group("x", all, 0); },
               {"groups of 0"});
  expect_error(ErrorKind::usage, [&] { (void)world.find_or_create_group("x", all, size + 1); },
               {"are not groups of"});
  std::vector<int> twice = all;  // a rank in two of the groups
  twice.insert(twice.end(), all.begin(), all.end());
  expect_error(ErrorKind::usage, [&] { (void)world.find_or_create_group("x", twice, size); },
               {"twice"});
  if (world.size() > 1)
    expect_error(
        ErrorKind::usage,
        [&] { (void)world.find_or_create_group("x", {(world.rank() + 1) % world.size()}, 1); },
        {"do not include this rank"});
  expect_group_works(fresh_group(world));
}

RANK_TEST(Tags, AnEndedWorldKnowsNone) {
  ProcessGroup group = world.new_group(everybody(world), {.tag = "all"});
  ProcessGroup first = world.group();
  EXPECT_EQ(group.global_rank(0), 0);
  world.destroy();
  for (const ProcessGroup& ended : {group, first}) {
    expect_error(ErrorKind::usage, [&] { (void)ended.global_rank(0); }, {"not registered"});
    expect_error(ErrorKind::usage, [&] { (void)ended.group_rank(0); }, {"not registered"});
  }
  expect_error(ErrorKind::usage, [&] { (void)world.find_group("all", {0}); }, {"destroyed"});
}

}  // namespace
}  // namespace hymn::test
