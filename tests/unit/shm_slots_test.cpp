// Collectives in rounds of slots, and barriers: who waits for whom, with members that are stepped
// one by one in a single thread. That results are right is shown by tests/ranks, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/shm/shm_algorithms.hpp"
#include "hymn/error.hpp"
#include "p2p/shm/heap_region.hpp"

namespace hymn {
namespace {

using Ints = std::vector<std::int32_t>;

/// A region that has less memory than its plan says.
class ShortRegion final : public SharedRegion {
 public:
  ShortRegion(std::unique_ptr<SharedRegion> whole, std::size_t most)
      : SharedRegion(whole->plan(), whole->members(), whole->me(), whole->common()),
        whole_(std::move(whole)),
        most_(most) {}
  Reserved reserve(int index) override {
    return {std::min(most_, whole_->reserve(index).bytes), "short"};
  }

 private:
  std::unique_ptr<SharedRegion> whole_;
  std::size_t most_;
};

/// All members of a group, each with its own end of the channel.
class Team {
 public:
  explicit Team(int members, bool crowded = false, std::size_t memory = SIZE_MAX) {
    const ShmAreas areas = ShmAreas::for_members(members);
    const auto heap = std::make_shared<HeapMemory>(areas.plan, members);
    std::vector<int> ranks(static_cast<std::size_t>(members));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int me = 0; me < members; ++me) {
      auto region = std::make_unique<ShortRegion>(HeapMemory::view(heap, me), memory);
      auto channel = std::make_shared<ShmChannel>(
          std::move(region), ranks, crowded, areas.desk,
          [this](const std::string& text) { warnings.push_back(text); });
      add_shm_algorithms(ends_.emplace_back(), {channel, areas, {.rank = me, .size = members}});
    }
  }

  int size() const { return static_cast<int>(ends_.size()); }
  Algorithm& algorithm(int member, std::string_view name) {
    for (const auto& algorithm : ends_[static_cast<std::size_t>(member)])
      if (algorithm->name() == name) return *algorithm;
    throw std::logic_error("no such algorithm");
  }

  std::vector<std::string> warnings;

 private:
  std::vector<Algorithms> ends_;
};

/// One member's part of a call.
class Part {
 public:
  Part(Team& team, int member, std::string_view name, const Request& request, int root = -1)
      : request_(request) {
    Algorithm& algorithm = team.algorithm(member, name);
    EXPECT_TRUE(algorithm.can_run(request_).ok);
    operation_ = &algorithm.prepare(storage_, {.request = &request_, .peer = root});
    operation_->start();
  }
  bool step() { return done_ || (done_ = operation_->step()); }

 private:
  Request request_;
  OperationStorage storage_;
  Operation* operation_;
  bool done_ = false;
};
using Parts = std::vector<std::unique_ptr<Part>>;

/// False when so many rounds of steps did not bring all parts to their end.
bool finish(Parts& parts, int rounds = 10000) {
  for (int i = 0; i < rounds; ++i) {
    bool done = true;
    for (auto& part : parts) done &= part->step();
    if (done) return true;
  }
  return false;
}

Ints numbers(int member, std::size_t count) {
  Ints values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<std::int32_t>(i % 10007) + member * 100003;
  return values;
}

Ints sum_of_all(int members, std::size_t count) {
  Ints sum(count);
  for (int member = 0; member < members; ++member) {
    const Ints values = numbers(member, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

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
    EXPECT_TRUE(finish(last, 1));
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
    for (auto& part : parts) ASSERT_FALSE(part->step()) << "member " << late << " has not come";
  parts.push_back(std::make_unique<Part>(team, late, "barrier_flags", Request::barrier()));
  EXPECT_TRUE(finish(parts, 20));
}

TEST(ShmBarrier, LetsNobodyThroughBeforeAllHaveCome) {
  for (const bool crowded : {false, true}) {
    for (const int members : {2, 3, 8, 9, 17, 128}) {
      SCOPED_TRACE(members);
      Team team(members, crowded);
      for (const int late : {0, members - 1, members / 2, 0}) barrier_holds(team, late);
    }
  }
}

}  // namespace
}  // namespace hymn
