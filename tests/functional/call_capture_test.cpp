// Captures of the calls of ProcessGroup: what is in them, what comes out when they are replayed,
// and how those of several ranks are compared.
#include <gmock/gmock.h>

#include <complex>
#include <functional>

#include "hymn/capture.hpp"
#include "hymn/coalesce.hpp"
#include "tests/functional/arrays.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

/// The names of its nodes.
std::vector<std::string> names_of(const Program& program) {
  std::vector<std::string> names;
  for (const ProgramNode& node : program.nodes) names.push_back(name_of(node));
  return names;
}

using Names = std::vector<std::string>;

/// Started, and then waited for.
Program captured_work(const std::function<Work()>& start) {
  const Captured captured = capture([&] { start().wait(); });
  EXPECT_EQ(Program::from_json(captured.program.to_json()).to_json(), captured.program.to_json());
  EXPECT_THAT(captured.program.to_dot(), HasSubstr("ends"));
  return captured.program;
}

std::vector<float> of_rank(const World& world, std::size_t count = 4) {
  return std::vector<float>(count, static_cast<float>(world.rank()));
}

RANK_TEST(Compiler, test_allreduce_work_wait_gpu) {
  std::vector<float> data = of_rank(world);
  const Program program = captured_work([&] { return world.group().all_reduce_async(data); });
  EXPECT_EQ(names_of(program), (Names{"all_reduce", "wait_tensor"}));
  EXPECT_EQ(program.nodes[1].calls, std::vector<std::size_t>{0});
}

RANK_TEST(Compiler, test_allgather_work_wait_gpu) {
  std::vector<float> data = of_rank(world);
  std::vector<std::vector<float>> all(static_cast<std::size_t>(world.size()), of_rank(world));
  std::vector<BufferView> views(all.begin(), all.end());
  const Program program = captured_work(
      [&] { return world.group().start(Request::all_gather(data, OutputBlocks::list(views))); });
  EXPECT_EQ(names_of(program), (Names{"all_gather", "wait_tensor"}));
  EXPECT_EQ(program.nodes[0].outputs.size(), all.size());
}

RANK_TEST(Compiler, test_allgather_into_tensor_work_wait_gpu) {
  std::vector<float> data = of_rank(world);
  std::vector<float> all = of_rank(world, 4 * static_cast<std::size_t>(world.size()));
  const Program program = captured_work([&] { return world.group().all_gather_async(data, all); });
  EXPECT_EQ(names_of(program), (Names{"all_gather", "wait_tensor"}));
}

RANK_TEST(Compiler, test_reduce_scatter_work_wait_gpu) {
  std::vector<float> part = of_rank(world);
  const std::vector<std::vector<float>> all(static_cast<std::size_t>(world.size()), part);
  const std::vector<ConstBufferView> views(all.begin(), all.end());
  const Program program = captured_work(
      [&] { return world.group().start(Request::reduce_scatter(InputBlocks::list(views), part)); });
  EXPECT_EQ(names_of(program), (Names{"reduce_scatter", "wait_tensor"}));
}

RANK_TEST(Compiler, test_reduce_scatter_tensor_work_wait_gpu) {
  std::vector<float> part = of_rank(world);
  const std::vector<float> all = of_rank(world, 4 * static_cast<std::size_t>(world.size()));
  const Program program =
      captured_work([&] { return world.group().reduce_scatter_async(all, part); });
  EXPECT_EQ(names_of(program), (Names{"reduce_scatter", "wait_tensor"}));
}

RANK_TEST(Compiler, test_broadcast_work_wait_gpu) {
  std::vector<float> data = of_rank(world);
  const Program program = captured_work([&] { return world.group().broadcast_async(data, 0); });
  EXPECT_EQ(names_of(program), (Names{"broadcast", "wait_tensor"}));
}

RANK_TEST(Compiler, test_scatter_work_wait_gpu) {
  std::vector<float> part = of_rank(world);
  const std::vector<float> all = of_rank(world, 4 * static_cast<std::size_t>(world.size()));
  const Program program = captured_work([&] { return world.group().scatter_async(all, part, 0); });
  EXPECT_EQ(names_of(program), (Names{"scatter", "wait_tensor"}));
  EXPECT_EQ(program.nodes[0].inputs.size(), world.rank() == 0 ? 1u : 0u);
}

RANK_TEST(Compiler, test_alltoall_work_wait_gpu) {
  const std::vector<float> in = of_rank(world, 4 * static_cast<std::size_t>(world.size()));
  std::vector<float> out = in;
  const Program program = captured_work([&] { return world.group().all_to_all_async(in, out); });
  EXPECT_EQ(names_of(program), (Names{"all_to_all", "wait_tensor"}));
}

// A call inside another capture of what it gives: each is there once.
RANK_TEST(Compiler, test_nested_comm_tensor_wrapping) {
  std::vector<float> data = of_rank(world);
  const Captured captured = capture([&] {
    const Array sum = fc::all_reduce(Array::borrow(data), "sum", world.group());
    std::vector<float> copy = elements_of<float>(sum);
    world.group().all_reduce_async(copy).wait();
  });
  EXPECT_EQ(names_of(captured.program),
            (Names{"all_reduce", "wait_tensor", "all_reduce", "wait_tensor"}));
}

RANK_TEST(Compiler, test_consecutive_comm_work_wait_gpu) {
  std::vector<float> data = of_rank(world);
  const Captured captured = capture([&] {
    world.group().all_reduce_async(data).wait();
    world.group().all_reduce_async(data).wait();
  });
  EXPECT_EQ(names_of(captured.program),
            (Names{"all_reduce", "wait_tensor", "all_reduce", "wait_tensor"}));
}

// --- What else can be captured

/// One of everything, in one order on all ranks.
void one_of_each(World& world) {
  ProcessGroup& group = world.group();
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<int> one(2, world.rank());
  std::vector<int> all(2 * size);
  group.all_reduce(one, ReduceOp::max);
  group.reduce(one, one, world.size() - 1);
  group.broadcast(one, 0);
  group.all_gather(one, all);
  group.gather(one, all, 0);
  group.scatter(all, one, 0);
  group.reduce_scatter(all, one);
  group.all_to_all(all, all);
  group.scan(one, one);
  group.exscan(one, one);
  group.barrier();
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  std::vector<int> other(2);
  group.sendrecv(one, next, 0, other, before, 0);
  {
    CoalescingScope scope(group);
    group.all_reduce(one);
    group.all_reduce(other);
  }
  std::vector<std::size_t> counts(size, 1);
  counts[0] = size + 1;
  const std::vector<int> own(counts[static_cast<std::size_t>(world.rank())], world.rank());
  std::vector<int> gathered(2 * size);
  group.run(Request::all_gather(own, OutputBlocks::counted(gathered, counts)));
}

/// Of all ranks of a world of so many, without any of them.
std::vector<Program> programs_of(int size, const std::function<void(World&)>& program) {
  std::vector<Program> programs;
  for (int rank = 0; rank < size; ++rank) {
    World world = World::fake(size, rank);
    programs.push_back(capture([&] { program(world); }).program);
  }
  return programs;
}

TEST(CallCapture, ProgramsOfAllRanksMatch) {
  for (const int size : {1, 2, 5}) {
    const std::vector<Program> programs = programs_of(size, one_of_each);
    EXPECT_EQ(find_mismatch(programs), "");
    for (const Program& program : programs) {
      EXPECT_EQ(Program::from_json(program.to_json()).to_json(), program.to_json());
      EXPECT_EQ(optimised(program).nodes.size(), program.nodes.size());
    }
  }
}

// In a world the same program gives the same when it is replayed.
RANK_TEST(CallCapture, IsReplayed) {
  const Captured captured = capture([&] { one_of_each(world); });
  std::vector<Array> inputs;
  for (const std::size_t value : captured.program.inputs) {
    const ArraySpec& spec = captured.program.values[value];
    inputs.push_back(Array::zeros(spec.shape, spec.dtype));
    for (int& element : inputs.back().mutable_values<int>()) element = world.rank() + 1;
  }
  const std::vector<Array> results = replay(captured, world, inputs);
  ASSERT_EQ(results.size(), captured.program.outputs.size());
  EXPECT_EQ(elements_of<int>(results.front()), std::vector(2, world.size()));
  const Array& gathered = results.back();
  EXPECT_EQ(elements_of<int>(gathered).front(), 1);
  EXPECT_EQ(elements_of<int>(gathered).back(), world.size());
}

/// What is said of programs in which one rank does something else.
std::string mismatch(int size, const std::function<void(World&)>& usual,
                     const std::function<void(World&)>& of_the_last) {
  return find_mismatch(programs_of(size, [&](World& world) {
    (world.rank() == world.size() - 1 ? of_the_last : usual)(world);
  }));
}

TEST(CallCapture, WhatDoesNotMatchIsNamed) {
  std::vector<float> data(4);
  const auto sum = [&](World& world) { world.group().all_reduce(data); };
  EXPECT_THAT(mismatch(3, sum, [&](World& w) { w.group().all_reduce(data, ReduceOp::max); }),
              HasSubstr("they reduce in different ways, by sum and by max"));
  EXPECT_THAT(mismatch(3, sum, [&](World& w) { w.group().barrier(); }),
              HasSubstr("different collectives"));
  EXPECT_THAT(mismatch(3, sum, [](World&) {}), HasSubstr("rank 2"));
  std::vector<float> longer(5);
  EXPECT_THAT(mismatch(3, sum, [&](World& w) { w.group().all_reduce(longer); }),
              HasSubstr("rank 0 sends 4 to rank 2, which takes 5"));
  std::vector<double> wider(4);
  EXPECT_THAT(mismatch(3, sum, [&](World& w) { w.group().all_reduce(wider); }),
              HasSubstr("dtypes"));
  EXPECT_THAT(mismatch(
                  2, [&](World& w) { w.group().broadcast(data, 0); },
                  [&](World& w) { w.group().broadcast(data, 1); }),
              HasSubstr("roots"));
}

TEST(CallCapture, MessagesAreMatched) {
  std::vector<float> data(4);
  const auto send = [&](int to, int tag = 0) {
    return [&data, to, tag](World& world) { world.group().send(data, to, tag); };
  };
  const auto receive = [&](int from, int tag = 0) {
    return [&data, from, tag](World& world) { world.group().recv(data, from, tag); };
  };
  EXPECT_EQ(mismatch(2, send(1), receive(0)), "");
  EXPECT_EQ(mismatch(2, send(1), receive(any_source)), "");
  EXPECT_THAT(mismatch(2, send(1, 3), receive(0, 4)), HasSubstr("with tag 3"));
  EXPECT_THAT(mismatch(2, receive(1), receive(0)), HasSubstr("wait for each other in a circle"));
  EXPECT_THAT(mismatch(2, send(1),
                       [&](World& world) {
                         std::vector<float> two(2);
                         world.group().recv(two, 0);
                       }),
              HasSubstr("rank 0 sends 4 to rank 1, which takes 2"));
  EXPECT_THAT(mismatch(2, send(1), [](World&) {}), HasSubstr("no program of rank 1"));
  EXPECT_THAT(mismatch(
                  2,
                  [&](World& world) {
                    send(1)(world);
                    world.group().barrier();
                  },
                  [](World& world) { world.group().barrier(); }),
              HasSubstr("message 1 from rank 0 to rank 1"));
}

// Two groups in two orders.
TEST(CallCapture, CirclesOfGroupsAreFound) {
  std::vector<float> data(4);
  const auto in_order = [&](bool turned) {
    return [&data, turned](World& world) {
      ProcessGroup one = world.new_group({0, 1}, {.tag = "one"});
      ProcessGroup two = world.new_group({0, 1}, {.tag = "two"});
      (turned ? two : one).all_reduce(data);
      (turned ? one : two).all_reduce(data);
    };
  };
  EXPECT_EQ(mismatch(2, in_order(false), in_order(false)), "");
  EXPECT_THAT(mismatch(2, in_order(false), in_order(true)), HasSubstr("circle"));
}

// Groups that their members make alone have one name on all of them; each call of split, too.
TEST(CallCapture, GroupsOfMembersAloneMatch) {
  EXPECT_EQ(find_mismatch(programs_of(4,
                                      [](World& world) {
                                        std::vector<float> data(3);
                                        const std::vector<int> pair{world.rank() / 2 * 2,
                                                                    world.rank() / 2 * 2 + 1};
                                        for (int i = 0; i < 2; ++i) {
                                          ProcessGroup two =
                                              world.new_group(pair, {.local_sync = true});
                                          two.all_reduce(data);
                                        }
                                        world.split(0).all_reduce(data);
                                      })),
            "");
}

// A test is none.
TEST(CallCapture, WaitsAreThoseThatBlock) {
  const auto ring = [](bool waits) {
    return [waits](World& world) {
      std::vector<float> out(3);
      std::vector<float> in(3);
      Work sent = world.group().isend(out, 1 - world.rank());
      (void)sent.test();
      if (waits) sent.wait();
      world.group().recv(in, 1 - world.rank());
      sent.wait();
    };
  };
  EXPECT_EQ(find_mismatch(programs_of(2, ring(false))), "");
  EXPECT_THAT(find_mismatch(programs_of(2, ring(true))), HasSubstr("circle"));
}

// Pairs of reals.
TEST(CallCapture, ComplexAndRealPartsMatch) {
  const std::vector<std::complex<float>> numbers(2);
  std::vector<float> reals(8);
  std::vector<std::complex<float>> all(4);
  EXPECT_EQ(mismatch(
                2, [&](World& world) { world.group().all_gather(numbers, reals); },
                [&](World& world) { world.group().all_gather(numbers, all); }),
            "");
}

TEST(CallCapture, AnEmptyBatchIsNothing) {
  const std::vector<Program> programs =
      programs_of(2, [](World& world) { world.group().batch_isend_irecv({}).wait(); });
  EXPECT_TRUE(programs.front().nodes.empty());
}

// What cannot be data does not start.
TEST(CallCapture, RefusesBeforeTheCall) {
  World world = World::fake(2, 0);
  std::vector<float> data(2, 1);
  const auto times = reduce_by<float>([](float a, float b) { return a * b; });
  const Captured captured = capture([&] {
    EXPECT_THROW((void)world.group().all_reduce_async(data, times), UsageError);
    world.group().barrier();
  });
  EXPECT_EQ(names_of(captured.program), (Names{"barrier", "wait_tensor"}));
}

// Replays wait for what a step takes, and make groups that are not there.
RANK_TEST(CallCapture, IsReplayedWhereItsGroupsAreNot) {
  const Captured captured = [&] {
    World fake = World::fake(world.size(), world.rank());
    std::vector<int> ranks(static_cast<std::size_t>(world.size()));
    for (int i = 0; i < world.size(); ++i) ranks[static_cast<std::size_t>(i)] = i;
    ProcessGroup group = fake.new_group(ranks);
    return capture([&] {
      std::vector<float> data(3);
      group.all_reduce(data);
    });
  }();
  const Array sum = replay(captured, world, std::vector{ones({3})}).at(0);
  EXPECT_EQ(sum.at<float>(0), static_cast<float>(world.size()));
}

TEST(CallCapture, ProgramsThatCannotBeAreRefused) {
  EXPECT_THROW(capture([] { (void)capture([] {}); }), UsageError);
  Program program = programs_of(2, [](World& each) { each.group().barrier(); }).front();
  program.nodes[0].call.following = 1;
  EXPECT_THROW((void)find_mismatch(std::span(&program, 1)), UsageError);
  program.nodes[0].call.following = 0;
  program.nodes[1].calls = {1};
  EXPECT_THROW((void)find_mismatch(std::span(&program, 1)), UsageError);
  program.nodes[1].calls = {0};
  program.nodes[0].call.following = static_cast<std::size_t>(-1);
  EXPECT_THROW((void)find_mismatch(std::span(&program, 1)), UsageError);
  program.nodes[0].call.following = 0;
  program.nodes[0].call.type = OpType::send;
  EXPECT_THROW((void)find_mismatch(std::span(&program, 1)), UsageError);
}

}  // namespace
}  // namespace hymn::test
