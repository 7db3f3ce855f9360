// Worlds of which one rank alone is there: what programs can do in them, and what comes out.
#include <gmock/gmock.h>

#include "hymn/capture.hpp"
#include "hymn/objects.hpp"
#include "hymn/store.hpp"
#include "tests/functional/arrays.hpp"

namespace hymn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const FakeTopology small_hosts{.synthetic = "pack:2 numa:1 core:4 pu:1", .hosts = 4};

// Of the seeds: the fake group takes elements, not only shapes.
TEST(CollectivesWithNCCL, test_tracing_with_fakepg) {
  World world = World::fake(8, 0);
  const auto all_reduce = [&](const Array& array) {
    return fc::all_reduce(array, "sum", world.group());
  };
  EXPECT_EQ(elements_of<float>(all_reduce(counting({8}))), elements_of<float>(counting({8})));
  const Array input = counting({8});
  const Captured captured = capture(std::span(&input, 1), [&](std::span<const Array> inputs) {
    return std::vector{all_reduce(inputs[0])};
  });
  EXPECT_EQ(captured.program.count("all_reduce"), 1u);
  EXPECT_EQ(captured.program.groups.at(0).ranks.size(), 8u);
}

TEST(FakeWorld, IsWhereItWouldBe) {
  const World world = World::fake(30, 9, small_hosts);
  EXPECT_EQ(world.rank(), 9);
  EXPECT_EQ(world.size(), 30);
  EXPECT_EQ(world.host_count(), 4);
  EXPECT_EQ(world.local_size(), 8);  // of 8, 8, 7, 7
  EXPECT_EQ(world.local_rank(), 1);
  FakeTopology dealt = small_hosts;
  dealt.round_robin = true;
  const World other = World::fake(30, 9, dealt);
  EXPECT_EQ(other.local_rank(), 2);
  EXPECT_THAT(other.topology_json(), HasSubstr("node1"));
}

// As if every other rank gave the same; reductions leave one input.
TEST(FakeWorld, ResultsFollowTheRule) {
  World world = World::fake(3, 1);
  ProcessGroup& group = world.group();
  std::vector<int> in{5, 6, 7};
  std::vector<int> out(3);
  group.all_reduce(ConstBufferView(in), BufferView(out));
  EXPECT_EQ(out, in);
  std::vector<int> all(9);
  group.all_gather(in, all);
  EXPECT_THAT(all, ElementsAre(5, 6, 7, 5, 6, 7, 5, 6, 7));
  int part = 0;
  group.reduce_scatter(in, part);
  EXPECT_EQ(part, 6);
  group.all_to_all(in, out);
  EXPECT_THAT(out, ElementsAre(6, 6, 6));
  group.broadcast(out, 0);
  EXPECT_THAT(out, ElementsAre(6, 6, 6));
  group.reduce(in, out, 0);
  EXPECT_THAT(out, ElementsAre(6, 6, 6));  // the root is elsewhere
  group.reduce(in, out, 1);
  EXPECT_EQ(out, in);
  group.all_reduce(in, ReduceOp::max);
  EXPECT_THAT(in, ElementsAre(5, 6, 7));
  EXPECT_EQ(all_gather_object(group, std::string("here")),
            (std::vector<std::string>{"here", "here", "here"}));
  group.barrier();
}

TEST(FakeWorld, AsynchronousCallsAndMessagesEnd) {
  World world = World::fake(4, 2);
  ProcessGroup& group = world.group();
  std::vector<float> data(10, 3);
  Work work = group.all_reduce_async(data);
  work.wait();
  group.send(data, 3);
  EXPECT_EQ(group.recv(data, 1).source, 1);
  EXPECT_EQ(group.recv(data, any_source).source, 0);
  EXPECT_EQ(data.front(), 3);
  bool told = false;
  const auto chained = group.all_reduce_async(data).then([&](const auto&) { told = true; });
  chained.get();
  EXPECT_TRUE(told);
}

TEST(FakeWorld, GroupsOfAnyKind) {
  World world = World::fake(12, 7, small_hosts);
  EXPECT_EQ(world.new_group({6, 7, 8}).rank(), 1);
  EXPECT_FALSE(world.new_group({0, 1}).is_member());
  EXPECT_EQ(world.new_group({7, 11}, {.local_sync = true}).size(), 2);
  EXPECT_EQ(world.new_group_async({1, 7}).get().rank(), 1);
  EXPECT_EQ(world.find_or_create_group("pairs", {0, 7, 1, 2}, 2).rank(), 1);
  EXPECT_EQ(world.split(3).size(), 12);  // all others give the same color
  const Mesh mesh(world, {4, 3}, {"dp", "tp"});
  EXPECT_EQ(mesh.group("tp").size(), 3);
  EXPECT_EQ(mesh.group("dp").rank(), 2);
  world.store()->set("key", std::string_view("value"));
  EXPECT_TRUE(world.store()->check({"key"}));
}

// What processes over MPI would take on such machines.
TEST(FakeWorld, ExplainsWhatWouldBeTaken) {
  World one = World::fake(8, 0, {.synthetic = "pack:2 numa:1 core:4 pu:1"});
  World many = World::fake(32, 5, small_hosts);
  std::vector<float> data(1 << 16);
  const auto explained = [&](World& world) {
    return world.group().explain(Request::all_reduce(data, data));
  };
  EXPECT_EQ(explained(one).path, "shm");
  EXPECT_GT(explained(one).predicted_us, 0);
  EXPECT_EQ(explained(many).path, "hierarchical");
  EXPECT_GT(explained(many).predicted_us, explained(one).predicted_us);
  World chosen = World::fake(8, 0, {}, {.path = "mpi"});
  EXPECT_EQ(explained(chosen).path, "mpi");
}

TEST(FakeWorld, IsRecorded) {
  World world = World::fake(1000, 999);
  std::vector<float> data(100);
  world.group().all_reduce(data);
  const std::string record = world.flight_record();
  EXPECT_THAT(record, HasSubstr("all_reduce"));
  EXPECT_THAT(record, HasSubstr("\"completed\""));
}

TEST(FakeWorld, RefusesWhatARealOneRefuses) {
  World world = World::fake(4, 0);
  std::vector<float> data(10);
  std::vector<float> other(39);
  expect_error(ErrorKind::usage, [&] { world.group().all_gather(data, other); }, {"all_gather"});
  expect_error(ErrorKind::unsupported, [&] { world.group().all_reduce(data, ReduceOp::band); },
               {"band", "float32"});
  expect_error(ErrorKind::usage, [&] { world.group().broadcast(data, 4); }, {"4"});
  expect_error(ErrorKind::usage, [&] { world.new_group({1, 1}); }, {"twice"});
  expect_error(ErrorKind::unsupported, [&] { world.group().shrink(); }, {"control plane"});
  expect_error(ErrorKind::unsupported, [&] { (void)world.group().iprobe(1); }, {"fake world"});
}

TEST(FakeWorld, RefusesJobsThatCannotBe) {
  const auto refused = [](int size, int rank, const FakeTopology& topology, Words words) {
    expect_error(ErrorKind::usage, [&] { World::fake(size, rank, topology); }, words);
  };
  refused(0, 0, {}, {"0 ranks"});
  refused(4, 4, {}, {"rank 4", "count from 0"});
  refused(4, -1, {}, {"rank -1"});
  refused(4, 0, {.hosts = 0}, {"0 hosts"});
  refused(2 << 20, 0, {.hosts = 1000}, {"at most"});
  refused(5000, 0, {.hosts = 1}, {"5000 ranks on 1 host"});
  refused(4, 0, {.file = "box.xml", .synthetic = "core:4"}, {"twice"});
  expect_error(ErrorKind::config, [] { World::fake(4, 0, {.file = "/nowhere/box.xml"}); },
               {"/nowhere/box.xml"});
  expect_error(ErrorKind::config, [] { World::fake(4, 0, {.synthetic = "nonsense"}); },
               {"nonsense"});
}

// A job of 4096 ranks takes no more than a moment.
TEST(FakeWorld, IsOfAnySize) {
  World world = World::fake(4096, 4095, {.synthetic = "pack:2 numa:1 core:4 pu:1", .hosts = 512});
  const Mesh mesh(world, {512, 8}, {"dp", "tp"});
  const Captured captured = capture([&] {
    const Array part = fc::all_reduce(ones({1024}), "sum", {mesh, "tp"});
    (void)fc::all_gather_tensor(part, 0, {mesh, "dp"}).shape();
  });
  EXPECT_EQ(captured.program.groups.at(1).ranks.size(), 512u);
  EXPECT_EQ(captured.program.rank, 4095);
}

// All ranks of a job one after the other: then what they would do is compared.
TEST(FakeWorld, ProgramsOfAllRanksAreCompared) {
  const auto programs = [](bool last_is_wrong) {
    std::vector<Program> all;
    for (int rank = 0; rank < 4; ++rank) {
      World world = World::fake(4, rank);
      const bool is_wrong = last_is_wrong && rank == 3;
      all.push_back(capture([&] {
                      const Array sum = fc::all_reduce(ones({2}), "sum", world.group());
                      (void)fc::all_reduce(sum, is_wrong ? "max" : "sum", world.group());
                    }).program);
    }
    return all;
  };
  EXPECT_EQ(find_mismatch(programs(false)), "");
  EXPECT_THAT(find_mismatch(programs(true)), HasSubstr("max"));
}

}  // namespace
}  // namespace hymn::test
