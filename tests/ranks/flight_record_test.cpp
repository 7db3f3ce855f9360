// What the flight recorder tells of the calls of every rank.
#include <array>
#include <chrono>
#include <numeric>
#include <set>
#include <string>

#include "hymn/objects.hpp"
#include "tests/support/flight_records.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool names_this_file(const Json& entry) {
  return entry["frames"].dump().find("flight_record_test.cpp") != std::string::npos;
}

void check_short(World& world, bool timing, bool collectives) {
  if (timing) world.enable_timing();
  const std::int64_t before = wall_ns();
  Matrix matrix(static_cast<float>(world.rank()));
  Work work;
  for (int i = 0; i < 2; ++i) {
    work = world.group().all_reduce_async(matrix.view());
    work.wait();
  }
  const Json record = record_of(world, {.collectives = collectives});
  EXPECT_EQ(record["version"], "1.4");
  EXPECT_EQ(record["hymn_version"], version());
  EXPECT_EQ(record["rank"], world.rank());
  EXPECT_EQ(record["written_by"], world.rank());
  EXPECT_EQ(record["world_size"], world.size());
  EXPECT_EQ(record["trigger"], "call");
  EXPECT_EQ(record["timing"], timing);
  EXPECT_EQ(record["capacity"], 512);
  EXPECT_EQ(record["recorded"], 2);
  ASSERT_EQ(record["pg_config"].size(), 1u);
  const Json& group = record["pg_config"]["0"];
  EXPECT_EQ(group["name"], "0");
  EXPECT_EQ(group["desc"], "default_pg");
  EXPECT_EQ(group["label"], "default_pg");
  std::vector<int> ranks(ranks_as_size(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(group["ranks"], ranks);
  EXPECT_EQ(group["collective_seq"], 2);
  EXPECT_EQ(group["completed_seq"], 2);
  EXPECT_EQ(group["p2p_seq"], 0);
  EXPECT_FALSE(group.contains("aborted"));
  EXPECT_EQ(record.contains("entries"), collectives);
  if (!collectives) return;
  ASSERT_EQ(record["entries"].size(), 2u);
  const Json& last = record["entries"].back();
  EXPECT_EQ(last["record_id"], 1);
  EXPECT_EQ(last["pg_id"], 0);
  EXPECT_EQ(last["process_group"], Json::array({"0", "default_pg"}));
  EXPECT_EQ(last["profiling_name"], "hymn:all_reduce");
  EXPECT_EQ(last["reduce_op"], "sum");
  EXPECT_EQ(last["is_p2p"], false);
  EXPECT_EQ(last["state"], "completed");
  EXPECT_EQ(last["retired"], true);
  EXPECT_EQ(last["collective_seq_id"], 2);
  EXPECT_EQ(last["p2p_seq_id"], 0);
  EXPECT_EQ(last["op_id"], 2);
  for (const char* side : {"input", "output"}) {
    EXPECT_EQ(last[std::string(side) + "_sizes"], Json::array({{3, 4}}));
    EXPECT_EQ(last[std::string(side) + "_dtypes"], Json::array({"float32"}));
  }
  const Timeout limit = world.group().timeout();
  const auto whole_ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit.duration());
  EXPECT_EQ(last["timeout_ms"], limit.is_none() ? Json(nullptr) : Json(whole_ms.count()));
  EXPECT_EQ(last["algorithm"], work.algorithm());
  EXPECT_EQ(last["path"], work.path());
  EXPECT_TRUE(names_this_file(last)) << last["frames"];
  // A wall clock may be set while it is read; a millisecond for how it is read.
  const std::int64_t created = last["time_created_ns"];
  EXPECT_GT(created, before - 1'000'000);
  EXPECT_LT(created, wall_ns() + 1'000'000);
  ASSERT_TRUE(last["time_discovered_completed_ns"].is_number());
  EXPECT_GE(last["time_discovered_completed_ns"], created);
  EXPECT_EQ(last["time_discovered_started_ns"].is_number(), timing);
  EXPECT_EQ(last.contains("duration_ms"), timing);
  if (!timing) return;
  EXPECT_LE(last["time_discovered_started_ns"], last["time_discovered_completed_ns"]);
  EXPECT_GT(last["duration_ms"], 0.0);
}

RANK_TEST(FlightRecord, test_short) { check_short(world, false, true); }
RANK_TEST(FlightRecord, test_short_with_times) { check_short(world, true, true); }
RANK_TEST(FlightRecord, test_short_without_collectives) { check_short(world, false, false); }
RANK_TEST(FlightRecord, test_short_with_times_without_collectives) {
  check_short(world, true, false);
}

TEST(FlightRecord, test_long) {
  const Variable size("HYMN_RECORDER_SIZE", "10");
  on_ranks([](World& world) {
    ProcessGroup& group = world.group();
    const std::size_t ranks = ranks_as_size(world);
    Matrix a(static_cast<float>(world.rank()));
    Matrix x(1);
    std::vector<Matrix> parts(ranks, Matrix(1));
    std::vector<BufferView> outputs;
    std::vector<ConstBufferView> inputs;
    for (Matrix& part : parts) {
      outputs.push_back(part.view());
      inputs.push_back(part.view());
    }
    for (int i = 0; i < 2; ++i) {
      group.broadcast(x.view(), 0);
      group.all_reduce(x.view());
      group.reduce(x.view(), 0);
      group.all_gather(x.view(), outputs);
      group.reduce_scatter(inputs, x.view());
      group.all_reduce(a.view());
    }
    const Json record = record_of(world);
    EXPECT_EQ(record["capacity"], 10);
    EXPECT_EQ(record["recorded"], 12);
    const Json& entries = record["entries"];
    ASSERT_EQ(entries.size(), 10u);
    const Json& last = entries.back();
    EXPECT_EQ(last["profiling_name"], "hymn:all_reduce");
    EXPECT_EQ(last["state"], "completed");
    EXPECT_TRUE(names_this_file(last));
    EXPECT_EQ(last["input_sizes"], Json::array({{3, 4}}));
    EXPECT_EQ(last["output_sizes"], Json::array({{3, 4}}));
    EXPECT_EQ(
        last["collective_seq_id"].get<int>() - entries.front()["collective_seq_id"].get<int>(), 9);
    std::vector<std::string> names;
    for (const Json& entry : entries) names.push_back(entry["op"]);
    EXPECT_EQ(names, (std::vector<std::string>{"reduce", "all_gather", "reduce_scatter",
                                               "all_reduce", "broadcast", "all_reduce", "reduce",
                                               "all_gather", "reduce_scatter", "all_reduce"}));
    // One list of dimensions for each buffer.
    const Json many(std::vector<std::vector<int>>(ranks, {3, 4}));
    EXPECT_EQ(entries[1]["output_sizes"], many);
    EXPECT_EQ(entries[2]["input_sizes"], many);
    EXPECT_EQ(entries[2]["output_sizes"], Json::array({{3, 4}}));
    EXPECT_EQ(entries[0]["root"], 0);
    EXPECT_FALSE(entries[1].contains("root"));
    EXPECT_FALSE(entries[4].contains("reduce_op"));
  });
}

TEST(FlightRecord, test_trace_while_all_works_retired) {
  const Variable size("HYMN_RECORDER_SIZE", "10");
  on_ranks([](World& world) {
    for (int i = 0; i < 12; ++i) {
      Matrix x(1);
      world.group().broadcast_async(x.view(), 0).wait();
    }
    const Json entries = record_of(world)["entries"];
    ASSERT_EQ(entries.size(), 10u);
    for (const Json& entry : entries) {
      EXPECT_EQ(entry["retired"], true);
      EXPECT_EQ(entry["state"], "completed");
    }
    EXPECT_EQ(record_of(world, {.only_active = true})["entries"].size(), 0u);
  });
}

TEST(FlightRecord, IsOffWithoutARing) {
  const Variable size("HYMN_RECORDER_SIZE", "0");
  on_ranks([](World& world) {
    Matrix x(1);
    world.group().broadcast(x.view(), 0);
    world.group().all_reduce_async(x.view()).wait();
    const Json record = record_of(world);
    EXPECT_EQ(record["capacity"], 0);
    EXPECT_EQ(record["recorded"], 0);
    EXPECT_EQ(record["entries"].size(), 0u);
    EXPECT_EQ(record["pg_config"]["0"]["collective_seq"], 2);
    EXPECT_EQ(record["pg_config"]["0"]["completed_seq"], 2);
  });
}

void check_send_and_recv(World& world, const std::vector<std::vector<std::int64_t>>& shapes,
                         bool timing) {
  NEEDS_RANKS(2);
  if (timing) world.enable_timing();
  constexpr std::size_t repeats = 10;
  for (std::size_t i = 0; i < repeats && world.rank() < 2; ++i) {
    for (const auto& shape : shapes) {
      std::vector<float> values(as_size(static_cast<int>(
          std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()))));
      BufferView view(values);
      view.shape = shape;
      if (world.rank() == 0)
        world.group().recv(view, 1);
      else
        world.group().send(view, 0);
    }
  }
  const Json record = record_of(world);
  const Json& entries = record["entries"];
  if (world.rank() >= 2) {
    EXPECT_EQ(entries.size(), 0u);
    return;
  }
  ASSERT_EQ(entries.size(), repeats * shapes.size());
  EXPECT_EQ(record["pg_config"]["0"]["p2p_seq"], entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Json& entry = entries[i];
    EXPECT_EQ(entry["profiling_name"], world.rank() == 0 ? "hymn:recv 0<-1" : "hymn:send 1->0");
    EXPECT_EQ(entry["peer"], 1 - world.rank());
    EXPECT_EQ(entry["is_p2p"], true);
    EXPECT_EQ(entry["p2p_seq_id"], i + 1);
    EXPECT_EQ(entry["collective_seq_id"], 0);
    EXPECT_EQ(entry["op_id"], i + 1);
    EXPECT_EQ(entry["input_sizes"], Json::array({shapes[i % shapes.size()]}));
    EXPECT_EQ(entry["output_sizes"], Json::array({shapes[i % shapes.size()]}));
    EXPECT_EQ(entry["state"], "completed");
    EXPECT_FALSE(entry.contains("signature"));
    EXPECT_EQ(entry.contains("duration_ms"), timing);
    EXPECT_GT(entry.value("duration_ms", 1.0), 0.0);
  }
}

RANK_TEST(FlightRecord, test_individual_send_recv) {
  check_send_and_recv(world, {{2, 3}, {5, 5}, {8}, {2, 3, 4}}, false);
}
RANK_TEST(FlightRecord, test_individual_send_recv_with_times) {
  check_send_and_recv(world, {{2, 3}, {5, 5}}, true);
}

RANK_TEST(FlightRecord, AProbeIsRecorded) {
  NEEDS_RANKS(2);
  std::int32_t value = 0;
  if (world.rank() == 1) world.group().send(view_of(value), 0, 5);
  if (world.rank() == 0) {
    while (!world.group().iprobe(1, 5)) continue;  // is not
    (void)world.group().probe(any_source, 5);
    const Json entries = record_of(world)["entries"];
    EXPECT_EQ(entries.size(), 1u);
    const Json& entry = entries.back();
    EXPECT_EQ(entry["profiling_name"], "hymn:probe 0<-any");
    EXPECT_EQ(entry["op"], "probe");
    EXPECT_EQ(entry["peer"], -1);
    EXPECT_EQ(entry["tag"], 5);
    EXPECT_EQ(entry["is_p2p"], true);
    EXPECT_EQ(entry["state"], "completed");
    world.group().recv(view_of(value), 1, 5);
  }
  world.group().barrier();
}

RANK_TEST(FlightRecord, PartsOfABatchAreRecorded) {
  NEEDS_RANKS(2);
  if (world.rank() >= 2) return;
  float out = 0;
  const float in = 1;
  const int peer = 1 - world.rank();
  const std::array batch = {P2POp::send(view_of(in), peer, 1), P2POp::recv(view_of(out), peer, 1)};
  world.group().batch_isend_irecv(batch).wait();
  const Json entries = record_of(world)["entries"];
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0]["op"], "send");
  EXPECT_EQ(entries[1]["op"], "recv");
  EXPECT_EQ(entries[0]["p2p_seq_id"], 1);
  EXPECT_EQ(entries[1]["p2p_seq_id"], 2);
  EXPECT_EQ(entries[0]["op_id"], 1);
  EXPECT_EQ(entries[1]["op_id"], 2);
  EXPECT_TRUE(entries[1]["retired"]);
  EXPECT_TRUE(names_this_file(entries[0]));
}

RANK_TEST(FlightRecord, SignaturesAreTheSameOnAllRanks) {
  ProcessGroup& group = world.group();
  const std::size_t ranks = ranks_as_size(world);
  const bool root = world.rank() == 0;
  std::vector<float> own(3);
  std::vector<float> all(3 * ranks);
  std::vector<std::size_t> counts(ranks, 3);
  std::vector<BufferView> list(root ? ranks : 0, BufferView(own));
  std::vector<std::vector<float>> kept(list.size(), own);
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = BufferView(kept[i]);
  group.gather(own, root ? BufferView(all) : BufferView(all).slice(0, 0), 0);
  group.gather(own, list, 0);
  group.gather(own, all, counts, 0);
  group.scatter(all, own, 0);
  group.all_gather(own, all, counts);
  group.all_to_all(all, all);
  group.barrier();
  for (const int other : {0, world.size() - 1}) group.broadcast(own, other);
  std::string all_signatures;
  const Json record = record_of(world);
  for (const Json& entry : record["entries"])
    all_signatures += entry["signature"].get<std::string>();
  EXPECT_EQ(all_signatures.size(), 9u * 16u);
  std::vector<std::uint8_t> mine(all_signatures.begin(), all_signatures.end());
  std::vector<std::uint8_t> first = mine;
  group.broadcast(first, 0);
  EXPECT_EQ(mine, first);
  std::set<std::string> different;
  for (std::size_t i = 0; i < 9; ++i) different.insert(all_signatures.substr(i * 16, 16));
  EXPECT_EQ(different.size(), world.size() == 1 ? 8u : 9u) << "the roots differ";
}

RANK_TEST(FlightRecord, GroupsStayAfterTheirEnd) {
  {
    ProcessGroup group = world.new_group({0}, {.description = "short-lived"});
    if (world.rank() == 0) group.barrier();
    group.destroy();
  }
  ProcessGroup later = world.new_group({0}, {.description = "later"});
  const Json groups = record_of(world)["pg_config"];
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups["1"]["label"], "short-lived#1");
  EXPECT_EQ(groups["1"]["ranks"], Json::array({0}));
  EXPECT_EQ(groups["1"]["collective_seq"], world.rank() == 0 ? 1 : 0);
  EXPECT_EQ(groups["1"]["completed_seq"], world.rank() == 0 ? 1 : 0);
  EXPECT_EQ(groups["2"]["label"], "later#2");
  EXPECT_EQ(groups["2"]["collective_seq"], 0);
}

/// Says to its join that it has input, as a user's would.
class Counted : public Joinable {
 public:
  explicit Counted(ProcessGroup group) : group_(std::move(group)) {}
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    return std::make_unique<JoinHook>();
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  ProcessGroup group_;
};

// What a join calls by itself is told as called where the user has called the join.
RANK_TEST(FlightRecord, ACallOfAJoinsOwnTellsWhereTheJoinWasCalled) {
  EXPECT_EQ(Join::count_active(world.group()), world.size());
  EXPECT_TRUE(names_this_file(last_of(world))) << last_of(world)["frames"];
  Counted counted(world.group());
  Join({&counted}).run([&] {
    Join::notify(counted);
    EXPECT_TRUE(names_this_file(last_of(world))) << last_of(world)["frames"];
  });
  EXPECT_TRUE(names_this_file(last_of(world))) << last_of(world)["frames"];
}

RANK_TEST(FlightRecord, ACallForObjectsIsItsTwoOperations) {
  all_gather_object(world.group(), std::string("text"));
  const Json entries = record_of(world)["entries"];
  ASSERT_GE(entries.size(), 2u);
  for (std::size_t i = entries.size() - 2; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i]["profiling_name"], "hymn:all_gather");
    const std::string first = entries[i]["frames"][0].dump();
    EXPECT_NE(first.find("flight_record_test.cpp"), std::string::npos) << first;
  }
}

TEST(FlightRecord, CallersAreKeptWhereAsked) {
  const Variable frames("HYMN_RECORDER_FRAMES", "6");
  on_ranks([](World& world) {
    world.group().barrier();
    const Json with_names = last_of(world)["frames"];
    EXPECT_GE(with_names.size(), 2u);
    EXPECT_NE(with_names[0].dump().find("flight_record_test.cpp"), std::string::npos);
    const Json without = record_of(world, {.symbols = false})["entries"].back()["frames"];
    EXPECT_GE(without.size(), 2u);
    EXPECT_LE(without.size(), 6u);
    EXPECT_EQ(without[0]["address"], with_names[0]["address"]);
    EXPECT_FALSE(without[0].contains("filename"));
  });
}

}  // namespace
}  // namespace hymn::test
