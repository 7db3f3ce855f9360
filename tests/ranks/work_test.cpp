// Work: waiting, testing, results, chains, order and overlap.
#include <array>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using Views = std::vector<BufferView>;

/// The first float of the first buffer.
float first_of(const Views& views) { return *static_cast<const float*>(views.at(0).data); }

RANK_TEST(Work, EveryCollectiveHasAnAsynchronousForm) {
  ProcessGroup& group = world.group();
  const Buffer in = filled(DataType::int32, 5, world.rank());
  BlockBuffer gathered(DataType::int32, world.size(), 5);
  BlockBuffer all_gathered(DataType::int32, world.size(), 5);
  BlockBuffer scatter_in(DataType::int32, world.size(), 5);
  BlockBuffer exchange_in(DataType::int32, world.size(), 5);
  BlockBuffer exchanged(DataType::int32, world.size(), 5);
  scatter_in.fill_for_each(0);
  exchange_in.fill_for_each(world.rank());
  Buffer shared = filled(DataType::int32, 5, world.rank());
  Buffer scattered(DataType::int32, 5);
  std::vector<std::int64_t> values(ranks_as_size(world), 1);
  std::int64_t block = 0;
  std::int64_t reduced = -1;
  const std::int64_t one = 1;
  std::vector works = {group.broadcast_async(shared, 0),
                       group.gather_async(in, gathered.view(), 0),
                       group.scatter_async(scatter_in.view(), scattered, 0),
                       group.all_gather_async(in, all_gathered.view()),
                       group.all_to_all_async(exchange_in.view(), exchanged.view()),
                       group.reduce_scatter_async(values, view_of(block)),
                       group.reduce_async(view_of(one), view_of(reduced), 0),
                       group.barrier_async()};
  // In another order than they were started in.
  for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
  expect_filled(shared, 0);
  expect_filled(scattered, 0, world.rank());
  all_gathered.expect_from_all();
  exchanged.expect_from_all(world.rank());
  EXPECT_EQ(block, world.size());
  if (world.rank() == 0) gathered.expect_from_all();
  EXPECT_EQ(reduced, world.rank() == 0 ? world.size() : -1);
}

RANK_TEST(Work, ManyOutstandingFinishedInAnyOrder) {
  constexpr std::size_t outstanding = 100;
  std::vector<std::vector<float>> values;
  std::vector<Work> works;
  for (std::size_t i = 0; i < outstanding; ++i)
    values.emplace_back(i * 7, static_cast<float>(world.rank()) + static_cast<float>(i));
  for (auto& value : values) works.push_back(world.group().all_reduce_async(value));
  // 37 and 100 have no common factor: every one comes up once, on each rank in another order.
  for (std::size_t i = 0; i < outstanding; ++i)
    works[(i * 37 + as_size(world.rank())) % outstanding].wait();
  const float ranks = static_cast<float>(world.size() * (world.size() - 1) / 2);
  for (std::size_t i = 0; i < outstanding; ++i) {
    const float sum = ranks + static_cast<float>(world.size()) * static_cast<float>(i);
    EXPECT_EQ(values[i], std::vector(i * 7, sum)) << i;
  }
}

RANK_TEST(Work, CollectivesOfAGroupCompleteInOrder) {
  constexpr int operations = 8;
  std::vector<std::vector<float>> values(operations, std::vector<float>(1000, 1.0f));
  std::vector<int> completed;
  std::vector<Work> works;
  for (auto& value : values) works.push_back(world.group().all_reduce_async(value));
  for (int i = 0; i < operations; ++i)
    (void)works[as_size(i)].then([&completed, i](const Views&) { completed.push_back(i); });
  works.back().wait();
  for (Work& work : works) EXPECT_TRUE(work.is_completed());
  std::vector<int> expected(operations);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(completed, expected);
}

RANK_TEST(Work, TestMovesItForward) {
  std::vector<float> values(4099, 1.0f);
  Work work = world.group().all_reduce_async(values);
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (!work.test() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.test());
  EXPECT_EQ(work.error(), nullptr);
  EXPECT_EQ(values[4098], static_cast<float>(world.size()));
}

RANK_TEST(Work, KnowsWhatItIs) {
  ProcessGroup& group = world.group();
  EXPECT_EQ(group.collective_sequence(), 0u);
  std::vector<float> values(10, 1.0f);
  Work first = group.all_reduce_async(values);
  Work second = group.barrier_async();
  EXPECT_TRUE(first.valid());
  EXPECT_EQ(first.type(), OpType::all_reduce);
  EXPECT_EQ(second.type(), OpType::barrier);
  EXPECT_EQ(first.sequence(), 1u);
  EXPECT_EQ(second.sequence(), 2u);
  const Explanation why = group.explain(Request::all_reduce(values, values));
  EXPECT_EQ(first.path(), why.path);
  EXPECT_EQ(first.algorithm(), why.algorithm);
  EXPECT_FALSE(first.path().empty());
  EXPECT_FALSE(first.algorithm().empty());
  first.wait();
  second.wait();
  EXPECT_EQ(group.collective_sequence(), 2u);
}

RANK_TEST(Work, ResultIsWhatWasWritten) {
  ProcessGroup& group = world.group();
  std::vector<float> values(10, 1.0f);
  std::vector<float> all(10 * ranks_as_size(world));
  Work reduced = group.all_reduce_async(values);
  reduced.wait();
  ASSERT_EQ(reduced.result().size(), 1u);
  EXPECT_EQ(reduced.result()[0].data, values.data());
  EXPECT_EQ(reduced.result()[0].count, 10u);
  Work gathered = group.all_gather_async(values, all);
  gathered.wait();
  ASSERT_EQ(gathered.result().size(), 1u);
  EXPECT_EQ(gathered.result()[0].data, all.data());
  Work barrier = group.barrier_async();
  barrier.wait();
  EXPECT_TRUE(barrier.result().empty());
}

RANK_TEST(Work, ListsNeedNotOutliveTheCall) {
  std::vector<std::size_t> counts(ranks_as_size(world), 3);
  const Buffer in = filled(DataType::uint8, 3, world.rank());
  ListBuffer list(DataType::uint8, counts);
  BlockBuffer flat(DataType::uint8, counts);
  Views views = list.views();
  Work first = world.group().start(Request::all_gather(in, OutputBlocks::list(views)));
  Work second =
      world.group().start(Request::all_gather(in, OutputBlocks::counted(flat.view(), counts)));
  views.assign(views.size(), BufferView());
  counts.assign(counts.size(), 1000000);
  first.wait();
  second.wait();
  list.expect_from_all();
  flat.expect_from_all();
}

RANK_TEST(Work, ChainsPassValuesOn) {
  std::vector<float> values(10, static_cast<float>(world.rank() + 1));
  Work work = world.group().all_reduce_async(values);
  const auto doubled = work.then(first_of).then([](float value) { return value * 2; });
  const auto text =
      doubled.then([](float value) { return std::to_string(static_cast<int>(value)); });
  bool done = false;
  const Future<void> last = text.then([&done](const std::string&) { done = true; });
  const int sum = world.size() * (world.size() + 1) / 2;
  EXPECT_EQ(text.get(), std::to_string(2 * sum));
  last.get();
  EXPECT_TRUE(done);
  EXPECT_EQ(doubled.get(), static_cast<float>(2 * sum));
  // On what has completed already, it runs at once.
  EXPECT_TRUE(work.then([](const Views& views) { return views.size(); }).is_ready());
}

RANK_TEST(Work, ChainsSkipToTheEndAfterAnException) {
  std::vector<float> values(10, 1.0f);
  int ran = 0;
  const auto chain = world.group()
                         .all_reduce_async(values)
                         .then([](const Views&) -> float { throw std::out_of_range("no good"); })
                         .then([&ran](float value) { return ++ran, value; })
                         .then([&ran](float) { ++ran; });
  try {
    chain.get();
    ADD_FAILURE() << "the exception was lost";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "no good");
  }
  EXPECT_EQ(ran, 0);
  world.group().barrier();
}

RANK_TEST(Work, ChainsRunOnTheGivenExecutor) {
  std::vector<std::thread> threads;
  const Executor on_new_thread = [&threads](std::function<void()> task) {
    threads.emplace_back(std::move(task));
  };
  std::vector<float> values(10, 1.0f);
  const auto id = world.group().all_reduce_async(values).then(
      [](const Views&) { return std::this_thread::get_id(); }, on_new_thread);
  const std::thread::id ran_on = id.get(30s);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(ran_on, threads[0].get_id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
  threads[0].join();
}

RANK_TEST(Work, AChainMayCallTheNextCollective) {
  std::int64_t value = 1;
  ProcessGroup& group = world.group();
  const Future<void> squared = group.all_reduce_async(view_of(value)).then([&](const Views&) {
    group.all_reduce(view_of(value));
  });
  squared.get();
  EXPECT_EQ(value, world.size() * world.size());
}

RANK_TEST(Work, WaitedForByTwoThreads) {
  if (!any_thread_may_call()) GTEST_SKIP() << "MPI did not grant MPI_THREAD_MULTIPLE";
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(4099, 1.0f);
    Work work = world.group().all_reduce_async(values);
    std::thread other([copy = work]() mutable { copy.wait(); });
    work.wait();
    other.join();
    EXPECT_EQ(values[4098], static_cast<float>(world.size()));
  }
}

TEST(Work, ProgressThreadCompletesItWhileNobodyWaits) {
  if (!any_thread_may_call()) GTEST_SKIP() << "MPI did not grant MPI_THREAD_MULTIPLE";
  on_ranks(
      [](World& world) {
        for (int i = 0; i < 3; ++i) {
          std::vector<float> values(100000, 1.0f);
          Work work = world.group().all_reduce_async(values);
          const auto limit = std::chrono::steady_clock::now() + 30s;
          while (!work.is_completed() && std::chrono::steady_clock::now() < limit)
            std::this_thread::sleep_for(100us);
          EXPECT_TRUE(work.is_completed());
          work.wait();
          EXPECT_EQ(values[99999], static_cast<float>(world.size()));
          world.group().barrier();
        }
      },
      {.progress_thread = true});
}

// --- Several of them

RANK_TEST(WaitAll, OfAllThatThereIs) {
  ProcessGroup& group = world.group();
  std::vector<std::vector<int>> values(50, std::vector<int>(3, 1));
  std::vector<Work> works(50);
  for (std::size_t i = 0; i < values.size(); i += 2) works[i] = group.all_reduce_async(values[i]);
  wait_all(works);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], std::vector<int>(3, i % 2 == 0 ? world.size() : 1));
  wait_all(works, 1ms);  // nothing is left to wait for
  wait_all({});
}

// Rank 0 is not sent what it waits for before it has told that its patience has ended.
RANK_TEST(WaitAll, TogetherForAsLongAsIsSaid) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  std::array<int, 3> values{};
  if (world.rank() == 1) {
    group.recv(values, 0);
    for (int tag = 0; tag < 3; ++tag) group.send(values, 0, tag);
  }
  if (world.rank() != 0) return;
  std::array<std::array<int, 3>, 3> in{};
  std::vector<Work> works;
  for (int tag = 0; tag < 3; ++tag) works.push_back(group.irecv(in[tag], 1, tag));
  const auto began = std::chrono::steady_clock::now();
  expect_error(ErrorKind::timeout, [&] { wait_all(works, 60ms); }, {"recv", "rank 1"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
  EXPECT_FALSE(works[2].is_completed());
  group.send(values, 1);
  wait_all(works, Timeout::none());
  EXPECT_TRUE(works[2].is_completed());
}

// The limits of the operations, which pass meanwhile, are not looked at: not that of the one whose
// turn has not come, either.
RANK_TEST(WaitAll, WhateverTheirOwnLimits) {
  NEEDS_RANKS(2);
  std::array groups = {fresh_group(world), fresh_group(world)};
  for (ProcessGroup& group : groups) group.set_timeout(100ms);
  std::array<std::vector<int>, 2> values = {std::vector<int>(3, 1), std::vector<int>(3, 1)};
  if (world.rank() == 1) std::this_thread::sleep_for(400ms);
  std::array<Work, 2> works;
  for (std::size_t i = 0; i < works.size(); ++i) works[i] = groups[i].all_reduce_async(values[i]);
  wait_all(works, 30s);
  for (const auto& each : values) EXPECT_EQ(each, std::vector<int>(3, world.size()));
}

RANK_TEST(WaitAll, ThrowsTheFirstErrorWhenAllHaveEnded) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  ProcessGroup other = fresh_group(world);
  std::vector<int> values(4, 1);
  std::vector<int> never(4, 1);
  std::vector<Work> works;
  if (world.rank() == 0) works.push_back(group.all_reduce_async(never));
  works.push_back(other.all_reduce_async(values));
  if (world.rank() != 0) {
    wait_all(works);
    return;
  }
  group.abort("it is enough");
  expect_error(ErrorKind::aborted, [&] { wait_all(works); }, {"it is enough"});
  EXPECT_TRUE(works[1].is_completed());
  EXPECT_EQ(values, std::vector<int>(4, world.size()));
}

RANK_TEST(WaitAny, IsTheOneThatHasCompleted) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  std::array<int, 1> value{};
  constexpr std::array order = {1, 2, 0};
  if (world.rank() == 1)
    for (const int tag : order) {
      group.recv(value, 0);  // when it has said that nothing has come yet
      value[0] = 10 + tag;
      group.send(value, 0, tag);
    }
  if (world.rank() != 0) return;
  std::array<std::array<int, 1>, 3> in{};
  std::array<Work, 4> works;
  for (int tag = 0; tag < 3; ++tag) works[tag] = group.irecv(in[tag], 1, tag);
  expect_error(ErrorKind::timeout, [&] { (void)wait_any(works, 20ms); },
               {"recv", "rank 1", "any other of the 3"});
  for (const int tag : order) {
    group.send(value, 1);
    ASSERT_EQ(wait_any(works), static_cast<std::size_t>(tag));
    EXPECT_EQ(in[static_cast<std::size_t>(tag)][0], 10 + tag);
    works[static_cast<std::size_t>(tag)] = {};
  }
  expect_error(ErrorKind::usage, [&] { (void)wait_any(works); }, {"no operation"});
}

RANK_TEST(WaitAny, TellsOfOneThatHasFailed) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  std::vector<int> values(4);
  if (world.rank() == 1) {
    world.group().recv(values, 0);
    world.group().send(values, 0, 77);
  }
  if (world.rank() != 0) {
    world.group().barrier();  // who left before would be the reason
    return;
  }
  std::vector<int> never(4);
  std::array works = {world.group().irecv(values, 1, 77), group.all_reduce_async(never)};
  group.abort("it is enough");
  EXPECT_EQ(wait_any(works), 1u);
  EXPECT_NE(works[1].error(), nullptr);
  EXPECT_FALSE(works[0].is_completed());
  world.group().send(values, 1);
  works[1] = {};
  EXPECT_EQ(wait_any(works), 0u);
  world.group().barrier();
}

RANK_TEST(Work, OfASmallSendHasEndedWhereSharedMemoryTakesIt) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  int value = 7;
  if (world.rank() == 0) {
    Work sent = group.isend(ConstBufferView(value), 1);
    EXPECT_TRUE(sent.path() != "shm" || sent.is_completed());
    sent.wait();
    EXPECT_TRUE(sent.statuses().empty());
  } else if (world.rank() == 1) {
    int got = 0;
    Work received = group.irecv(BufferView(got), 0);
    received.wait();
    EXPECT_EQ(got, value);
    EXPECT_EQ(received.status().source, 0);
  }
  group.barrier();
}

RANK_TEST(Work, EmptyHandleIsNoWork) {
  Work none;
  EXPECT_FALSE(none.valid());
  expect_error(ErrorKind::usage, [&] { none.wait(); });
  expect_error(ErrorKind::usage, [&] { none.test(); });
}

}  // namespace
}  // namespace hymn::test
