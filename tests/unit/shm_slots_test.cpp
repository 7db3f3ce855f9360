// Collectives in rounds of slots, and barriers: who waits for whom, with members that are stepped
// one by one in a single thread. That results are right is shown by tests/ranks, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/sanitizers.hpp"
#include "hymn/error.hpp"
#include "tests/unit/shm_team.hpp"

namespace hymn::test {
namespace {

void broadcast_arrives(Team& team, std::size_t count, int root) {
  std::vector<Ints> data;
  Parts parts;
  for (int me = 0; me < team.size(); ++me) data.push_back(numbers(me, count));
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(std::make_unique<Part>(team, me, "broadcast_slots",
                                           Request::broadcast(data[me], root), root));
  ASSERT_TRUE(finish(parts));
  for (const Ints& got : data) EXPECT_EQ(got, numbers(root, count));
}

void reduce_arrives(Team& team, std::size_t count, int root) {
  std::vector<Ints> data;
  Ints result(count);
  Parts parts;
  for (int me = 0; me < team.size(); ++me) data.push_back(numbers(me, count));
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(std::make_unique<Part>(team, me, "reduce_slots",
                                           Request::reduce(data[me], result, root), root));
  ASSERT_TRUE(finish(parts));
  EXPECT_EQ(result, sum_of_all(team.size(), count));
}

/// The root's result takes the place of its input.
void reduce_in_place_arrives(Team& team, std::size_t count, int root) {
  std::vector<Ints> data;
  Parts parts;
  for (int me = 0; me < team.size(); ++me) data.push_back(numbers(me, count));
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(std::make_unique<Part>(team, me, "reduce_slots",
                                           Request::reduce(data[me], data[me], root), root));
  ASSERT_TRUE(finish(parts));
  for (int me = 0; me < team.size(); ++me)
    EXPECT_EQ(data[me], me == root ? sum_of_all(team.size(), count) : numbers(me, count));
}

/// Blocks of different sizes, some of them empty.
std::vector<std::size_t> uneven(int members, std::size_t count) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(members));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = count * (i * 5 % 4) / 3;
  return counts;
}

void all_gather_arrives(Team& team, const std::vector<std::size_t>& counts) {
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  std::vector<Ints> inputs;
  std::vector<Ints> outputs;
  Ints expected;
  for (int me = 0; me < team.size(); ++me) {
    inputs.push_back(numbers(me, counts[me]));
    outputs.emplace_back(total);
    expected.insert(expected.end(), inputs.back().begin(), inputs.back().end());
  }
  Parts parts;
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(std::make_unique<Part>(
        team, me, "all_gather_slots",
        Request::all_gather(inputs[me], OutputBlocks::counted(outputs[me], counts))));
  ASSERT_TRUE(finish(parts));
  for (const Ints& got : outputs) EXPECT_EQ(got, expected);
}

void reduce_scatter_arrives(Team& team, const std::vector<std::size_t>& counts) {
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  std::vector<Ints> inputs;
  std::vector<Ints> outputs;
  for (int me = 0; me < team.size(); ++me) {
    inputs.push_back(numbers(me, total));
    outputs.emplace_back(counts[me]);
  }
  Parts parts;
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(std::make_unique<Part>(
        team, me, "reduce_scatter_slots",
        Request::reduce_scatter(InputBlocks::counted(inputs[me], counts), outputs[me])));
  ASSERT_TRUE(finish(parts));
  Ints together;
  for (const Ints& got : outputs) together.insert(together.end(), got.begin(), got.end());
  EXPECT_EQ(together, sum_of_all(team.size(), total));
}

void everything_arrives(Team& team, std::size_t count) {
  SCOPED_TRACE(testing::Message() << team.size() << " members, " << count << " elements");
  for (const int root : {0, team.size() - 1, team.size() / 2}) {
    broadcast_arrives(team, count, root);
    reduce_arrives(team, count, root);
  }
  const std::vector<std::size_t> equal(static_cast<std::size_t>(team.size()), count);
  all_gather_arrives(team, equal);
  all_gather_arrives(team, uneven(team.size(), count));
  reduce_scatter_arrives(team, equal);
  reduce_scatter_arrives(team, uneven(team.size(), count));
}

TEST(ShmSlots, CarryEveryLengthBetweenAnyNumberOfMembers) {
  for (const int members : {1, 2, 3, 5, 8, 9, 17}) {
    if (sanitized && members != 2 && members != 5) continue;
    Team team(members);
    for (const std::size_t count : {0u, 1u, 12u, 13u, 1000u, 1024u, 1025u, 20001u, 300007u}) {
      if (members > 8 && count > 30000) continue;
      everything_arrives(team, count);
    }
  }
}

TEST(ShmSlots, ManyMembersFoldALargeReductionTogether) {
  for (const int members : {3, 4, 7, 16}) {
    Team team(members);
    for (const std::size_t count : {65535u, 65536u, 65537u, 200003u})
      for (const int root : {0, 2}) reduce_in_place_arrives(team, count, root);
    everything_arrives(team, 5);
  }
}

TEST(ShmSlots, CarryBetweenAsManyMembersAsThereMayBe) {
  Team team(128);
  for (const std::size_t count : {1u, 300u}) everything_arrives(team, count);
}

// The buffers of all members together are more than caches hold.
TEST(ShmSlots, ResultsArePutPastTheCaches) {
  constexpr std::size_t count = 2'800'003;
  constexpr int members = 3;
  const auto run = [](bool in_place) {
    Team team(members);
    std::vector<Ints> in;
    std::vector<Ints> out(members, Ints(count));
    for (int me = 0; me < members; ++me) in.push_back(numbers(me, count));
    Parts parts;
    for (std::size_t me = 0; me < members; ++me)
      parts.push_back(
          std::make_unique<Part>(team, static_cast<int>(me), "all_reduce_two_shot",
                                 Request::all_reduce(in[me], in_place ? in[me] : out[me])));
    ASSERT_TRUE(finish(parts));
    for (const Ints& got : in_place ? in : out) EXPECT_EQ(got, sum_of_all(members, count));
  };
  run(false);
  run(true);
}

TEST(ShmSlots, CarryBetweenMembersThatShareCores) {
  Team team(4, true);
  for (const std::size_t count : {3u, 700u, 70001u}) everything_arrives(team, count);
}

TEST(ShmSlots, DoWithWhatMemoryThereIs) {
  for (const std::size_t memory : {std::size_t{0}, std::size_t{8} << 10, std::size_t{100} << 10}) {
    Team team(3, false, memory);
    everything_arrives(team, 50000);
    EXPECT_THAT(team.warnings, testing::SizeIs(3)) << "each member says once that memory is short";
  }
}

TEST(ShmSlots, DoWithWhatTheMemberThatHasLeastHas) {
  for (const int poor : {0, 1, 2}) {
    Team team(3, false, std::size_t{8} << 10, poor);
    everything_arrives(team, 50000);
    reduce_in_place_arrives(team, 200003, 1);
  }
}

TEST(ShmSlots, RootOfABroadcastWaitsOnlyWhenItsSlotsAreUsedUp) {
  Team team(2);
  constexpr int slots = 128;
  std::vector<Ints> sent;
  for (int i = 0; i <= slots; ++i) sent.push_back({i, -i});
  for (int i = 0; i < slots; ++i)
    EXPECT_TRUE(Part(team, 0, "broadcast_slots", Request::broadcast(sent[i], 0), 0).step()) << i;
  Part last(team, 0, "broadcast_slots", Request::broadcast(sent[slots], 0), 0);
  EXPECT_FALSE(last.step()) << "no slot is free";
  for (int i = 0; i <= slots; ++i) {
    Ints got(2);
    EXPECT_TRUE(Part(team, 1, "broadcast_slots", Request::broadcast(got, 0), 0).step()) << i;
    EXPECT_EQ(got, sent[i]);
    EXPECT_TRUE(i < slots - 1 || last.step()) << "all slots have been read";
  }
}

TEST(ShmSlots, OthersInAReduceWaitOnlyWhenTheirSlotsAreUsedUp) {
  Team team(3);
  constexpr int slots = 64;
  std::vector<Ints> given;
  for (int i = 0; i <= slots; ++i) given.push_back(numbers(i, 100));
  Ints result(100);
  Parts last;
  for (const int member : {1, 2}) {
    for (int i = 0; i < slots; ++i)
      EXPECT_TRUE(
          Part(team, member, "reduce_slots", Request::reduce(given[i], result, 0), 0).step());
    last.push_back(std::make_unique<Part>(team, member, "reduce_slots",
                                          Request::reduce(given[slots], result, 0), 0));
    EXPECT_FALSE(last.back()->step()) << "no slot is free";
  }
  for (int i = 0; i <= slots; ++i) {
    Ints zero(100);
    EXPECT_TRUE(Part(team, 0, "reduce_slots", Request::reduce(zero, result, 0), 0).step());
    for (std::size_t k = 0; k < result.size(); ++k) ASSERT_EQ(result[k], 2 * given[i][k]);
    // That slots have been read is told now and then, but in time.
    EXPECT_EQ(finish(last, 1), i >= 31) << i;
  }
}

TEST(ShmSlots, AnotherCallIsFoundOut) {
  Team team(2);
  Ints four(4);
  Ints five(5);
  Part root(team, 0, "broadcast_slots", Request::broadcast(four, 0), 0);
  EXPECT_TRUE(root.step());
  Part other(team, 1, "broadcast_slots", Request::broadcast(five, 0), 0);
  EXPECT_THROW(other.step(), UsageError);
}

// The root of a broadcast goes on while somebody still reads its last pieces: then it takes what
// others show of an all_gather before it can show anything itself.
TEST(ShmSlots, WhatIsTakenBeforeAnythingCanBeGivenIsTakenOnce) {
  constexpr std::ptrdiff_t at_once = 4 * 65536;  // pieces are of 256 KiB
  constexpr std::size_t count = 2 * at_once;
  Team team(3);
  broadcast_arrives(team, count, 0);
  std::vector<Ints> data(3, Ints(count));
  Parts casts;
  for (int me = 0; me < 3; ++me)
    casts.push_back(
        std::make_unique<Part>(team, me, "broadcast_slots", Request::broadcast(data[me], 0), 0));
  for (auto& part : casts) ASSERT_FALSE(part->step());
  ASSERT_TRUE(casts[0]->step());
  ASSERT_TRUE(casts[1]->step());
  // Member 2 has read half of it.
  const std::vector<std::size_t> counts{count, count, 0};
  const std::vector<Ints> inputs{numbers(0, count), numbers(1, count), {}};
  std::vector<Ints> outputs(3, Ints(2 * count));
  Parts gathers;
  const auto gather = [&](int me) {
    gathers.push_back(std::make_unique<Part>(
        team, me, "all_gather_slots",
        Request::all_gather(inputs[me], OutputBlocks::counted(outputs[me], counts))));
  };
  gather(0);
  gather(1);
  ASSERT_FALSE(gathers[1]->step());
  ASSERT_FALSE(gathers[0]->step());
  const auto taken = outputs[0].begin() + count;
  EXPECT_TRUE(std::equal(taken, taken + at_once, inputs[1].begin()));
  std::fill_n(taken, at_once, -1);
  ASSERT_TRUE(casts[2]->step());
  gather(2);
  ASSERT_TRUE(finish(gathers));
  EXPECT_EQ(std::count(taken, taken + at_once, -1), at_once) << "taken again";
  std::copy_n(inputs[1].begin(), at_once, taken);
  Ints expected = inputs[0];
  expected.insert(expected.end(), inputs[1].begin(), inputs[1].end());
  for (const Ints& got : outputs) EXPECT_EQ(got, expected);
}

// Alone, a member never has to wait.
TEST(ShmSlots, LargeCallsTakeManySteps) {
  constexpr std::size_t count = std::size_t{12} << 20;
  Ints in(count, 3);
  Ints out(count);
  const auto steps_of = [](std::string_view name, const Request& request, int root = -1) {
    Team team(1);
    Part part(team, 0, name, request, root);
    int steps = 1;
    while (!part.step()) ++steps;
    return steps;
  };
  const auto a_few = testing::AllOf(testing::Ge(8), testing::Le(24));
  EXPECT_THAT(steps_of("broadcast_slots", Request::broadcast(in, 0), 0), a_few);
  EXPECT_THAT(steps_of("all_gather_slots", Request::all_gather(in, OutputBlocks::equal(out))),
              a_few);
  EXPECT_EQ(out, in);
  EXPECT_THAT(
      steps_of("reduce_scatter_slots", Request::reduce_scatter(InputBlocks::equal(in), out)),
      a_few);
  EXPECT_THAT(steps_of("all_reduce_two_shot", Request::all_reduce(in, out)), a_few);
  EXPECT_EQ(steps_of("broadcast_slots", Request::broadcast(std::span(in).first(1000000), 0), 0), 1);
}

// Where all others show much, a member takes it bit by bit; and it does not fall asleep over it,
// though it shows nothing itself that would wake anybody.
TEST(ShmSlots, WhatOthersShowIsTakenInShares) {
  constexpr int members = 12;
  // In pieces of 256 KiB, of which four are shown at once.
  constexpr std::size_t count = 8 * 65536;
  constexpr std::size_t half = 6 * (std::size_t{1} << 18);
  Team team(members, true);
  std::vector<std::size_t> counts(members, count);
  all_gather_arrives(team, counts);
  counts[0] = 0;
  std::vector<Ints> outputs(members, Ints((members - 1) * count));
  const Ints input(count, 1);
  Parts parts;
  for (int me = 0; me < members; ++me)
    parts.push_back(
        std::make_unique<Part>(team, me, "all_gather_slots",
                               Request::all_gather(std::span(input).first(counts[me]),
                                                   OutputBlocks::counted(outputs[me], counts))));
  for (int i = 0; i < 10; ++i)
    for (int me = 1; me < members; ++me) parts[me]->step();
  const auto there = [&outputs] {
    return static_cast<std::size_t>(std::count(outputs[0].begin(), outputs[0].end(), 1));
  };
  ASSERT_FALSE(parts[0]->step());
  EXPECT_LE(there(), half);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(parts[0]->park(40'000'000'000));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_GT(there(), half);
  EXPECT_TRUE(finish(parts));
}

/// Blocks of any layout lie anywhere in memory.
TEST(ShmSlots, ListsOfBlocksAreTakenAsTheyLie) {
  for (const std::size_t count : {5u, 900u, 40000u}) {
    Team team(3);
    std::vector<Ints> inputs;
    std::vector<std::vector<Ints>> blocks(3, std::vector<Ints>(3, Ints(count)));
    std::vector<std::vector<BufferView>> lists(3);
    Parts parts;
    for (int me = 0; me < 3; ++me) inputs.push_back(numbers(me, count));
    for (int me = 0; me < 3; ++me) {
      lists[me] = {blocks[me].begin(), blocks[me].end()};
      parts.push_back(
          std::make_unique<Part>(team, me, "all_gather_slots",
                                 Request::all_gather(inputs[me], OutputBlocks::list(lists[me]))));
    }
    ASSERT_TRUE(finish(parts));
    parts.clear();
    std::vector<Ints> results(3, Ints(count));
    std::vector<std::vector<ConstBufferView>> all(3);
    for (int me = 0; me < 3; ++me) {
      all[me] = {lists[me].begin(), lists[me].end()};
      parts.push_back(
          std::make_unique<Part>(team, me, "reduce_scatter_slots",
                                 Request::reduce_scatter(InputBlocks::list(all[me]), results[me])));
    }
    ASSERT_TRUE(finish(parts));
    for (int me = 0; me < 3; ++me)
      for (int from = 0; from < 3; ++from) {
        EXPECT_EQ(blocks[me][from], inputs[from]);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(results[from][i], 3 * inputs[from][i]);
      }
  }
}

/// Nobody is through before the last has come; then all are.
void barrier_holds(Team& team, int late) {
  Parts parts;
  for (int me = 0; me < team.size(); ++me)
    if (me != late)
      parts.push_back(std::make_unique<Part>(team, me, "barrier_flags", Request::barrier()));
  for (int i = 0; i < 20; ++i)
    for (auto& part : parts) ASSERT_FALSE(part->step()) << "member " << late << " has not arrived";
  parts.push_back(std::make_unique<Part>(team, late, "barrier_flags", Request::barrier()));
  EXPECT_TRUE(finish(parts, 20));
}

TEST(ShmBarrier, LetsNobodyThroughBeforeAllHaveCome) {
  for (const bool oversubscribed : {false, true}) {
    for (const int members : {2, 3, 8, 9, 17, 128}) {
      SCOPED_TRACE(members);
      Team team(members, oversubscribed);
      for (const int late : {0, members - 1, members / 2, 0}) barrier_holds(team, late);
    }
  }
}

}  // namespace
}  // namespace hymn::test
