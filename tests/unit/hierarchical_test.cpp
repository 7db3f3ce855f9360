// How calls across hosts are cut, and who sends what to whom: arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "collectives/hierarchical/piece_plan.hpp"

namespace hymn::test {
namespace {

constexpr std::size_t slot = 4096;

TEST(HostMap, OrdersMembersByHost) {
  const HostMap map({5, 2, 5, 2, 2, 9}, 4);
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_EQ(map.members(), 6);
  EXPECT_EQ(map.leaders(), 1);
  EXPECT_EQ(map.largest_host(), 3);
  const std::array<int, 6> order = {0, 2, 1, 3, 4, 5};
  for (int place = 0; place < 6; ++place) {
    const int rank = order[static_cast<std::size_t>(place)];
    EXPECT_EQ(map.rank_at(place), rank);
    EXPECT_EQ(map.place_of(rank), place);
  }
  EXPECT_EQ(map.my_host(), 1);
  EXPECT_EQ(map.my_place(), 4);
  EXPECT_EQ(map.index_of(4), 2);
  EXPECT_EQ(map.leader(2, 0), 5);
}

TEST(HostMap, KnowsWhetherHostsFollowTheRanks) {
  EXPECT_TRUE(HostMap({7, 7, 2, 3, 3}, 0).in_rank_order());
  EXPECT_TRUE(HostMap({0, 1, 2}, 0).in_rank_order());
  EXPECT_FALSE(HostMap({0, 1, 0}, 0).in_rank_order());
  EXPECT_FALSE(HostMap({0, 0, 1, 2, 1}, 0).in_rank_order());
}

TEST(HostMap, LimitsLeaders) {
  EXPECT_EQ(HostMap({0, 0, 0, 1, 1}, 0).leaders(), 2);
  EXPECT_EQ(HostMap(std::vector<int>(12, 3), 0).leaders(), 4);
  EXPECT_EQ(HostMap({}, 0).hosts(), 0);
}

/// A call of each kind, with `count` elements of each block.
std::vector<Request> calls(std::span<float> memory, int ranks, std::size_t count) {
  const std::span<float> one = memory.first(count);
  const std::span<float> all = memory.first(count * static_cast<std::size_t>(ranks));
  return {Request::all_reduce(one, one),
          Request::broadcast(one, 3),
          Request::reduce(one, one, 3),
          Request::all_gather(one, OutputBlocks::equal(all)),
          Request::reduce_scatter(InputBlocks::equal(all), one),
          Request::scan(one, one),
          Request::exscan(one, one),
          Request::barrier()};
}

TEST(PiecePlan, PiecesHoldEverythingOnceAndFit) {
  const HostMap map({0, 1, 0, 2, 1}, 0);
  std::vector<float> memory(100000);
  for (const std::size_t count : {0, 1, 63, 1000, 1025, 20000}) {
    for (const Request& request : calls(memory, map.members(), count)) {
      SCOPED_TRACE(std::string(to_string(request.type)) + " " + std::to_string(count));
      const PiecePlan plan = PiecePlan::make(request, map, 3, sizeof(float), slot);
      const bool barrier = request.type == OpType::barrier;
      std::size_t next = 0;
      for (std::size_t piece = 0; piece < plan.pieces; ++piece) {
        const Slice run = plan.elements(piece);
        EXPECT_EQ(run.offset, next);
        EXPECT_EQ(run.count == 0, barrier);
        EXPECT_LE(plan.length(piece) * sizeof(float), slot);
        next += run.count;
      }
      EXPECT_EQ(next, barrier ? 0 : count);
      EXPECT_EQ(plan.pieces == 0, count == 0 && !barrier);
    }
  }
}

/// Follows one piece: which hosts' inputs are in what each host has of it at the end.
std::vector<std::vector<int>> hosts_in_result(const PiecePlan& plan, const HostMap& map,
                                              int root_host) {
  const int hosts = map.hosts();
  const std::size_t length = plan.length(0);
  const auto bit = [](int host) { return 1 << host; };
  // From the start a host has its own everywhere; nothing but the root's counts for broadcast.
  const auto start = [&](int host) {
    return plan.type != OpType::broadcast || host == root_host ? bit(host) : 0;
  };
  std::vector<std::vector<int>> folded;
  for (int host = 0; host < hosts; ++host) {
    folded.emplace_back(length, start(host));
    const Slice part = plan.part(0, host, map);
    for (int from = 0; from < hosts; ++from)
      for (std::size_t i = part.offset; i < part.offset + part.count; ++i)
        if (plan.gather.has(from, host)) folded.back()[i] |= start(from);
  }
  auto result = folded;
  for (int host = 0; host < hosts; ++host)
    for (int from = 0; from < hosts; ++from) {
      const Slice part = plan.part(0, from, map);
      for (std::size_t i = part.offset; i < part.offset + part.count; ++i)
        if (plan.spread.has(from, host))
          result[static_cast<std::size_t>(host)][i] = folded[static_cast<std::size_t>(from)][i];
    }
  return result;
}

TEST(PiecePlan, EveryHostGetsWhatItNeeds) {
  const HostMap map({0, 1, 0, 2, 1}, 0);
  const int root_host = map.host_of(3);
  std::vector<float> memory(400000);
  for (const std::size_t count : {10, 70000}) {
    for (const Request& request : calls(memory, map.members(), count)) {
      SCOPED_TRACE(std::string(to_string(request.type)) + " " + std::to_string(count));
      const PiecePlan plan = PiecePlan::make(request, map, 3, sizeof(float), 1 << 20);
      const auto result = hosts_in_result(plan, map, root_host);
      for (int host = 0; host < map.hosts(); ++host) {
        if (request.type == OpType::reduce && host != root_host) continue;
        for (std::size_t i = 0; i < plan.length(0); ++i) {
          const auto run = plan.elements(0).count;
          const int owner = map.host_of(map.rank_at(static_cast<int>(i / run) % map.members()));
          int wanted = 0b111;
          if (request.type == OpType::broadcast) wanted = 1 << root_host;
          if (request.type == OpType::all_gather) wanted = 1 << owner;
          if (is_prefix(request.type)) wanted = (2 << host) - 1;
          if (request.type == OpType::reduce_scatter && owner != host) continue;
          ASSERT_EQ(result[static_cast<std::size_t>(host)][i], wanted)
              << "host " << host << " " << i;
        }
      }
    }
  }
}

TEST(PiecePlan, FewBytesCrossOnce) {
  const HostMap map({0, 0, 1, 1, 2}, 0);
  std::vector<float> memory(100000);
  const auto steps = [&](std::size_t count) {
    const std::span<float> data = std::span(memory).first(count);
    const PiecePlan plan =
        PiecePlan::make(Request::all_reduce(data, data), map, -1, sizeof(float), 1 << 20);
    return (plan.gather.used ? 1 : 0) + (plan.spread.used ? 1 : 0);
  };
  EXPECT_EQ(steps(100), 1);
  EXPECT_EQ(steps(100000), 2);
}

}  // namespace
}  // namespace hymn::test
