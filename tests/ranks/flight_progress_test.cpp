// What the flight recorder tells of calls while they are under way, and of those that are made in
// the shadow of other ranks.
#include <chrono>
#include <thread>

#include "tests/support/flight_records.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const char* in_flight(bool timing) { return timing ? "started" : "scheduled"; }

/// All others tell rank 0, which waits for it, that they are where they should be.
void tell_first(ProcessGroup& group, World& world) {
  std::int32_t token = 1;
  if (world.rank() != 0) return group.send(view_of(token), 0, 5);
  for (int rank = 1; rank < world.size(); ++rank) group.recv(view_of(token), rank, 5);
}

void check_while_active(World& world, bool timing) {
  NEEDS_RANKS(2);
  if (timing) world.enable_timing();
  ProcessGroup signals = fresh_group(world, "signals");
  Matrix a(static_cast<float>(world.rank()));
  world.group().all_reduce_async(a.view()).wait();
  Work second;
  if (world.rank() != 0) second = world.group().all_reduce_async(a.view());
  const Json record = record_of(world);
  const Json& last = record["entries"].back();
  EXPECT_EQ(last["profiling_name"], "hymn:all_reduce");
  const bool waits = world.rank() != 0;
  EXPECT_EQ(last["collective_seq_id"], waits ? 2 : 1);
  EXPECT_EQ(last["state"], waits ? in_flight(timing) : "completed");
  EXPECT_EQ(last["retired"], !waits);
  EXPECT_EQ(record["pg_config"]["0"]["collective_seq"], waits ? 2 : 1);
  EXPECT_EQ(record["pg_config"]["0"]["completed_seq"], 1);
  EXPECT_EQ(record_of(world, {.only_active = true})["entries"].size(), waits ? 1u : 0u);
  tell_first(signals, world);
  if (world.rank() == 0) world.group().all_reduce(a.view());
  if (waits) second.wait();
}

RANK_TEST(FlightRecord, test_trace_while_active) { check_while_active(world, false); }
RANK_TEST(FlightRecord, test_trace_while_active_with_times) { check_while_active(world, true); }

void check_while_stuck(World& world, bool timing) {
  NEEDS_RANKS(2);
  if (timing) world.enable_timing();
  ProcessGroup signals = fresh_group(world, "signals");
  Matrix a(static_cast<float>(world.rank()));
  world.group().all_reduce(a.view());
  if (world.rank() == 0) {
    const Json last = last_of(world);
    EXPECT_EQ(last["collective_seq_id"], 1);
    EXPECT_EQ(last["state"], "completed");
    tell_first(signals, world);
    world.group().all_reduce(a.view());
    return;
  }
  std::thread gather([&] {
    const auto limit = std::chrono::steady_clock::now() + 30s;
    Json last;
    do {
      std::this_thread::yield();
      last = last_of(world);
    } while (last["collective_seq_id"] != 2 && std::chrono::steady_clock::now() < limit);
    // A call comes to be known a moment before it has started.
    while (last["state"] != in_flight(timing) && std::chrono::steady_clock::now() < limit)
      last = last_of(world);
    EXPECT_EQ(last["profiling_name"], "hymn:all_reduce");
    EXPECT_EQ(last["collective_seq_id"], 2);
    EXPECT_EQ(last["state"], in_flight(timing));
    EXPECT_TRUE(last["time_discovered_completed_ns"].is_null());
    EXPECT_FALSE(last.contains("duration_ms"));
    tell_first(signals, world);
  });
  world.group().all_reduce(a.view());
  gather.join();
  EXPECT_EQ(record_of(world)["pg_config"]["0"]["completed_seq"], 2);
}

void check_while_stuck_where_threads_may(World& world, bool timing) {
  if (any_thread_may_call()) check_while_stuck(world, timing);
}

RANK_TEST(FlightRecord, test_trace_while_stuck) {
  check_while_stuck_where_threads_may(world, false);
}
RANK_TEST(FlightRecord, test_trace_while_stuck_with_times) {
  check_while_stuck_where_threads_may(world, true);
}

/// The entries of this group that are marked, and how many there are.
std::pair<std::vector<std::uint64_t>, std::size_t> shadowed_in(const World& world,
                                                               std::uint64_t uid) {
  std::vector<std::uint64_t> marked;
  std::size_t all = 0;
  const Json record = record_of(world);
  for (const Json& entry : record["entries"]) {
    if (entry["pg_id"] != uid) continue;
    ++all;
    if (entry.value("shadowed", false)) marked.push_back(entry["collective_seq_id"]);
  }
  return {marked, all};
}

// Rank i makes as many barriers, shadows those of the others, and meets them at the end.
RANK_TEST(FlightRecord, MarksWhatIsShadowed) {
  ProcessGroup group = fresh_group(world, "signals");
  const std::uint64_t uid = group.membership().uid;
  const std::string key = std::to_string(uid);
  Join::shadow_all({group}, [&] {
    for (int i = 0; i < world.rank(); ++i) group.barrier();
    EXPECT_FALSE(record_of(world)["pg_config"][key].contains("shadows_since"));
  });
  std::vector<std::uint64_t> expected;
  for (int i = world.rank() + 1; i < world.size(); ++i)
    expected.push_back(static_cast<std::uint64_t>(i));
  const auto [marked, all] = shadowed_in(world, uid);
  EXPECT_EQ(marked, expected);
  EXPECT_EQ(all, ranks_as_size(world));
  EXPECT_FALSE(record_of(world)["pg_config"][key].contains("shadows_since"));
}

RANK_TEST(FlightRecord, TellsWhoShadowsAtAFailure) {
  if (world.size() < 2) return;
  ProcessGroup group = fresh_group(world, "signals");
  const std::string key = std::to_string(group.membership().uid);
  const bool fails = world.rank() == 0;
  const auto body = [&] {
    group.barrier();
    tell_first(world.group(), world);
    if (fails) throw UsageError("no luck");
  };
  EXPECT_ANY_THROW(Join::shadow_all({group}, body));
  const Json config = record_of(world)["pg_config"][key];
  EXPECT_EQ(config.contains("shadows_since"), !fails);
  if (!fails) {
    EXPECT_EQ(config["shadows_since"], 1);
  }
}

}  // namespace
}  // namespace hymn::test
