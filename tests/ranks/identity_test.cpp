// Whatever a group sends is that group's alone: beside other groups that live, and after others
// that have ended, on every path, whatever their uids.
#include <algorithm>
#include <cstdint>

#include "control/coordinator.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

/// At both sides of where a narrower number would begin anew, and where a tag made of it would.
std::vector<std::uint64_t> telling_uids() {
  std::vector<std::uint64_t> uids;
  for (const int bits : {15, 22, 30, 32, 40}) {
    const std::uint64_t power = std::uint64_t{1} << bits;
    if (bits == 15) uids.push_back(power - 2);  // as a tag of MPI's, where it has least
    uids.insert(uids.end(), {power - 1, power, power + 1, power + power / 2});
  }
  return uids;
}

std::vector<std::string> all_paths() {
  if (ranks_are_threads()) return {"exchange", "shm", "threads,exchange"};
  return {"exchange", "shm", "mpi,mpi_p2p", "mpi_p2p"};
}

/// Every rank of the test once more, for each of the paths.
void on_every_path(const std::function<void(World&, const GroupOptions&)>& body) {
  for (const std::string& path : all_paths()) {
    SCOPED_TRACE("path " + path);
    on_ranks([&](World& world) {
      if (world.size() > 1) body(world, GroupOptions{.path = path});
    });
  }
}

ProcessGroup group_with_uid(World& world, std::uint64_t uid, const GroupOptions& options) {
  detail::WorldState::of(world).groups().skip_uids_to(uid);
  ProcessGroup made = fresh_group(world, options);
  EXPECT_GE(made.membership().uid, uid);
  EXPECT_LE(made.membership().uid, uid + 3);  // where groups are made between
  return made;
}

std::int64_t word_of(std::size_t group, int sender) {
  return static_cast<std::int64_t>(group) * 1000 + sender;
}

/// Sends in all groups under one tag, and receives in another order; collectives the same.
void expect_apart(std::vector<ProcessGroup*> groups) {
  const int ranks = groups.front()->size();
  const int me = groups.front()->rank();
  std::vector<std::int64_t> words(groups.size());
  std::vector<std::int64_t> sums(groups.size());
  std::vector<Work> works;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    words[i] = word_of(i, me);
    works.push_back(groups[i]->isend(view_of(std::as_const(words[i])), (me + 1) % ranks, 5));
  }
  const int before = (me + ranks - 1) % ranks;
  for (std::size_t i = groups.size(); i-- > 0;) {
    std::int64_t word = -1;
    groups[i]->recv(view_of(word), before, 5);
    EXPECT_EQ(word, word_of(i, before)) << groups[i]->membership().uid;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    sums[i] = word_of(i, me);
    works.push_back(groups[i]->all_reduce_async(view_of(sums[i])));
  }
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < groups.size(); ++i)
    EXPECT_EQ(sums[i], ranks * word_of(i, 0) + ranks * (ranks - 1) / 2);
}

std::vector<ProcessGroup*> pointers_to(std::vector<ProcessGroup>& groups) {
  std::vector<ProcessGroup*> pointers;
  for (ProcessGroup& group : groups) pointers.push_back(&group);
  return pointers;
}

TEST(Identity, LivingGroupsAreApart) {
  on_every_path([](World& world, const GroupOptions& options) {
    std::vector<ProcessGroup> groups;
    groups.push_back(fresh_group(world, options));
    for (const std::uint64_t uid : telling_uids())
      groups.push_back(group_with_uid(world, uid, options));
    auto all = pointers_to(groups);
    all.push_back(&world.group());
    expect_apart(all);
    EXPECT_EQ(world.dropped_messages(), 0u);
  });
}

TEST(Identity, ShrunkGroupsAreApartFromAllThatLive) {
  on_every_path([](World& world, const GroupOptions& options) {
    std::vector<ProcessGroup> groups;
    groups.push_back(fresh_group(world, options));
    for (const std::uint64_t uid : {(std::uint64_t{1} << 22) - 1, std::uint64_t{1} << 30,
                                    (std::uint64_t{1} << 30) + 1, std::uint64_t{1} << 32})
      groups.push_back(group_with_uid(world, uid, options));
    const std::size_t first_shrunk = groups.size();
    for (std::size_t i = 0; i < first_shrunk; i += 2) {
      ProcessGroup shrunk = groups[i].shrink();
      groups.push_back(std::move(shrunk));
    }
    std::vector<ProcessGroup*> living = {&world.group()};
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (i >= first_shrunk || i % 2 == 1) living.push_back(&groups[i]);
    expect_apart(living);
    world.group().barrier();  // nobody is in it any more
    ProcessGroup shrunk_twice = groups[first_shrunk].shrink();
    std::replace(living.begin(), living.end(), &groups[first_shrunk], &shrunk_twice);
    expect_apart(living);
  });
}

TEST(Identity, LocalGroupsAreApartFromAllThatLive) {
  on_every_path([](World& world, const GroupOptions& options) {
    GroupOptions local = options;
    local.local_sync = true;
    std::vector<ProcessGroup> groups;
    for (int i = 0; i < 3; ++i) {
      groups.push_back(fresh_group(world, local));
      groups.push_back(fresh_group(world, options));
    }
    for (int i = 0; i < 2; ++i) {
      ProcessGroup shrunk = groups.front().shrink();
      groups.erase(groups.begin());
      groups.push_back(std::move(shrunk));
    }
    // As late as a group can be that is counted.
    groups.push_back(group_with_uid(world, control::first_local_uid - 1, options));
    auto all = pointers_to(groups);
    all.push_back(&world.group());
    expect_apart(all);
    EXPECT_EQ(world.dropped_messages(), 0u);
  });
}

// The message is short, so that its send ends without a receiver.
TEST(Identity, WhatADeadGroupWasSentReachesNoOther) {
  on_every_path([](World& world, const GroupOptions& options) {
    std::uint64_t dead = 0;
    for (const std::uint64_t uid : telling_uids()) {
      {
        ProcessGroup ends = group_with_uid(world, uid, options);
        const std::int64_t old = 111;
        if (world.rank() == 0) ends.send(view_of(old), 1, 5);
        ++dead;
        world.group().barrier();
      }
      ProcessGroup next = fresh_group(world, options);
      std::int64_t word = 222;
      if (world.rank() == 0) next.send(view_of(std::as_const(word)), 1, 5);
      if (world.rank() == 1) {
        word = -1;
        next.recv(view_of(word), any_source, 5);
      }
      EXPECT_EQ(word, 222) << uid;
      expect_apart({&next});
    }
    // In shared memory it goes with the memory of its group.
    const bool counts = options.path != "shm" && options.path != "threads,exchange";
    const std::uint64_t least = counts && world.rank() == 1 ? dead : 0;
    EXPECT_GE(world.dropped_messages(), least);
  });
}

TEST(Identity, WhatAGroupWasSentDoesNotReachItsShrunkGroup) {
  on_every_path([](World& world, const GroupOptions& options) {
    for (int i = 0; i < 3; ++i) {
      ProcessGroup group = fresh_group(world, options);
      const std::int64_t old = 111;
      if (world.rank() == 0) group.send(view_of(old), 1, 5);
      world.group().barrier();  // nobody is in it any more
      ProcessGroup shrunk = group.shrink();
      std::int64_t word = 222;
      if (world.rank() == 0) shrunk.send(view_of(std::as_const(word)), 1, 5);
      if (world.rank() == 1) shrunk.recv(view_of(word), 0, 5);
      EXPECT_EQ(word, 222);
      expect_apart({&shrunk, &world.group()});
    }
  });
}

// A receive that is given up leaves its message to nobody else.
TEST(Identity, AMessageThatComesTooLateReachesNoOther) {
  on_every_path([](World& world, const GroupOptions& options) {
    for (int i = 0; i < 3; ++i) {
      {
        ProcessGroup ends = fresh_group(world, options);
        std::int64_t old = 111;
        if (world.rank() == 1) {
          EXPECT_THROW(
              ends.recv(view_of(old), 0, 5, {.timeout = Timeout(std::chrono::milliseconds(20))}),
              TimeoutError);
          EXPECT_FALSE(ends.is_aborted());
        }
        world.group().barrier();
        if (world.rank() == 0) ends.send(view_of(std::as_const(old)), 1, 5);
        world.group().barrier();
      }
      ProcessGroup next = fresh_group(world, options);
      expect_apart({&next, &world.group()});
    }
  });
}

// Otherwise it would take the numbers of groups that members make alone.
TEST(Identity, GroupsAreCountedOnlySoFar) {
  on_ranks([](World& world) {
    detail::WorldState::of(world).groups().skip_uids_to(control::first_local_uid);
    EXPECT_THROW(static_cast<void>(fresh_group(world)), ResourceError);
    expect_apart({&world.group()});
  });
}

}  // namespace
}  // namespace hymn::test
