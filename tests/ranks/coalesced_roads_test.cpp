// Coalesced collectives on every road that data can take: small ones in bundles, large ones and
// those over blocks of given sizes beside them.
#include <array>
#include <chrono>
#include <memory>

#include "tests/support/errors.hpp"
#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

/// Alike but in their sizes, places, layouts and data.
CallPlan plan_of(OpType type, Cell cell, std::size_t number) {
  constexpr std::array<std::size_t, 6> counts{3, 0, 1000, 1, 20000, 17};
  CallPlan plan{.type = type,
                .dtype = cell.dtype,
                .kind = cell.kind,
                .count = counts[number % counts.size()]};
  plan.salt = static_cast<int>(number);
  plan.in_place = number % 2 == 1;
  plan.in_offset = number % 3 * 4;
  plan.uneven = has_blocks(type) && number % counts.size() == 3;
  plan.listed = has_blocks(type) && number % counts.size() == 5;
  return plan;
}

void make_calls(ProcessGroup& group, OpType type, Cell cell, std::size_t calls) {
  std::vector<std::unique_ptr<KnownCall>> known;
  std::vector<Request> requests;
  for (std::size_t number = 0; number < calls; ++number) {
    auto call = std::make_unique<KnownCall>(group, plan_of(type, cell, number));
    if (group.explain(call->request()).algorithm.empty()) continue;
    requests.push_back(call->request());
    known.push_back(std::move(call));
  }
  if (requests.empty()) return;
  const std::uint64_t before = group.collective_sequence();
  Work first = group.start_coalesced(requests);
  Work second = group.barrier_async();
  second.wait();
  EXPECT_TRUE(first.is_completed());
  for (const auto& call : known) call->check();
  EXPECT_EQ(group.collective_sequence(), before + 2);
}

void on_road(World& world, const Road& road, OpType type) {
  SCOPED_TRACE(to_string(road) + ": coalesced " + std::string(to_string(type)));
  ProcessGroup group = world.new_group(everybody(world), forced(road));
  for (const std::size_t calls : {1u, 2u, 6u, 12u})
    make_calls(group, type, {DataType::int32, ReduceKind::sum}, calls);
  // Brought into accumulators before they are reduced, in memory of other sizes than their own,
  // too.
  if (reduces(type) && !is_prefix(type))  // bundles hold no prefixes
    for (const Cell cell :
         {Cell{DataType::float16, ReduceKind::avg}, Cell{DataType::bfloat16, ReduceKind::min},
          Cell{DataType::int32, ReduceKind::lor}, Cell{DataType::boolean, ReduceKind::sum}})
      make_calls(group, type, cell, 6);
}

RANK_TEST(CoalescedRoads, EveryCollectiveOnEveryRoad) {
  for (const OpType type : collectives())
    if (type != OpType::barrier)
      for (const Road& road : roads_of(world.group(), type)) on_road(world, road, type);
}

// Of as many elements together, but cut otherwise.
RANK_TEST(CoalescedRoads, AnotherSplitIsFound) {
  NEEDS_RANKS(2);
  const bool is_last = world.rank() == world.size() - 1;
  for (const Road& road : roads_of(world.group(), OpType::all_reduce)) {
    if (road.path == "mpi") continue;  // its collectives carry nothing of hymn's
    SCOPED_TRACE(to_string(road));
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    group.set_timeout(std::chrono::seconds(20));
    std::vector<std::int32_t> values(8, 1);
    const std::size_t first = is_last ? 3 : 5;
    const std::array requests{
        Request::all_reduce(BufferView(values).slice(0, first), BufferView(values).slice(0, first)),
        Request::all_reduce(BufferView(values).slice(first, 8 - first),
                            BufferView(values).slice(first, 8 - first))};
    if (group.explain(requests[0]).algorithm.empty()) continue;
    const std::string text = error_text([&] {
      group.start_coalesced(requests).wait();
      for (int turn = 0; turn < 2; ++turn) group.barrier();
    });
    EXPECT_TRUE(text.find("differ") != std::string::npos) << text;
  }
}

// Numbers would be out of step behind them.
RANK_TEST(CoalescedRoads, BarriersAreNotSingleOnes) {
  NEEDS_RANKS(2);
  for (const Road& road : roads_of(world.group(), OpType::barrier)) {
    if (road.path != "threads") continue;  // others have no data that labels could travel with
    SCOPED_TRACE(to_string(road));
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    group.set_timeout(std::chrono::seconds(20));
    const std::array requests{Request::barrier(), Request::barrier()};
    const std::string text = error_text([&] {
      if (world.rank() == 0) return group.barrier();
      group.start_coalesced(requests).wait();
    });
    EXPECT_TRUE(text.find("differ") != std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hymn::test
