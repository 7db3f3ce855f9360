// What is told of operations that have ended: to hooks, by metrics; and waiting for all of them.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Keeps what a hook is told.
class Listener {
 public:
  explicit Listener(ProcessGroup& group) {
    group.on_completion([this](const CompletionInfo& info) {
      std::lock_guard lock(mutex_);
      told_.push_back(info);
    });
  }
  std::vector<CompletionInfo> told() const {
    std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CompletionInfo> told_;
};

// As of one that is found to be wrong as soon as it is called.
RANK_TEST(WaitForPendingWorks, ThrowsWhatAMessageHasFailedWithThatHasCome) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  std::vector<int> values(4);
  if (world.rank() == 1) group.send(values, 0);
  world.group().barrier();
  if (world.rank() == 0) {
    int room = 0;
    Work received = group.irecv(BufferView(room), 1);
    EXPECT_FALSE(received.is_completed());
    EXPECT_THROW(group.wait_for_pending_works(), Error);
    EXPECT_NE(received.error(), nullptr);
  }
  world.group().barrier();
}

RANK_TEST(CompletionHook, IsToldOfBlockingCalls) {
  ProcessGroup group = fresh_group(world, {.description = "heard"});
  const Listener listener(group);
  std::vector<float> values(6, 1.0f);
  group.broadcast(values, 0);
  group.barrier();
  const auto told = listener.told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].type, OpType::broadcast);
  EXPECT_EQ(told[0].name, "hymn:broadcast");
  EXPECT_EQ(told[0].bytes, 24u);
  EXPECT_EQ(told[0].sequence, 1u);
  EXPECT_TRUE(told[0].ok());
  EXPECT_FALSE(told[0].p2p);
  EXPECT_FALSE(told[0].active.has_value());  // without timing
  EXPECT_NE(told[0].group.find("heard"), std::string::npos);
  EXPECT_EQ(told[1].type, OpType::barrier);
  EXPECT_EQ(told[1].sequence, group.collective_sequence());
}

RANK_TEST(CompletionHook, test_on_completion_hook_broadcast) {
  world.enable_timing();
  ProcessGroup group = fresh_group(world);
  const Listener listener(group);
  std::vector<float> values(6, static_cast<float>(world.rank()));
  for (int i = 0; i < 2; ++i) group.broadcast_async(values, 0).wait();
  group.destroy();
  const auto told = listener.told();
  EXPECT_EQ(told.size(), 2u);
  for (const CompletionInfo& info : told) EXPECT_GT(info.active.value_or(0s), 0s);
  EXPECT_EQ(values, std::vector<float>(6));
}

RANK_TEST(CompletionHook, test_on_completion_hook_mixed_ops) {
  world.enable_timing();
  ProcessGroup group = fresh_group(world);
  const Listener listener(group);
  const std::size_t ranks = ranks_as_size(world);
  std::vector<float> values(6, static_cast<float>(world.rank()));
  std::vector<float> all(6 * ranks);
  const Work first = group.all_reduce_async(values);
  Work(first).wait();
  EXPECT_EQ(listener.told().size(), 1u);  // before wait() returns
  // Of its own: others may still read `values` for the all_gather.
  std::vector<float> more = values;
  (void)group.all_gather_async(values, all);
  (void)group.all_reduce_async(more);
  group.destroy();  // never waited for
  const auto told = listener.told();
  ASSERT_EQ(told.size(), 3u);
  const std::vector<OpType> types = {OpType::all_reduce, OpType::all_gather, OpType::all_reduce};
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].type, types[i]);
    EXPECT_EQ(told[i].sequence, i + 1);
    EXPECT_TRUE(told[i].ok()) << told[i].error;
    ASSERT_TRUE(told[i].active.has_value());
    EXPECT_GT(*told[i].active, Duration::zero());
  }
  const auto n = static_cast<float>(ranks);
  const float sum = n * (n - 1) / 2;
  EXPECT_EQ(all, std::vector<float>(6 * ranks, sum));
  EXPECT_EQ(more, std::vector<float>(6, sum * n));
}

RANK_TEST(CompletionHook, test_on_completion_hook_seq) {
  ProcessGroup group = fresh_group(world);
  const Listener listener(group);
  std::int32_t value = 1;
  for (int i = 0; i < 3; ++i) group.broadcast_async(view_of(value), 0).wait();
  for (int i = 0; i < 3; ++i) group.broadcast(view_of(value), 0);
  group.wait_for_pending_works();
  const auto told = listener.told();
  ASSERT_EQ(told.size(), 6u);
  EXPECT_EQ(told.back().sequence, 6u);
  EXPECT_EQ(told.back().sequence, group.collective_sequence());
}

RANK_TEST(CompletionHook, OfMessagesAndBatches) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  const Listener listener(group);
  std::vector<std::int32_t> in(4, 1);
  std::vector<std::int32_t> out(4);
  if (world.rank() > 1) return;
  const int peer = 1 - world.rank();
  if (world.rank() == 0)
    group.send(in, 1);
  else
    group.recv(out, any_source);
  group.batch_isend_irecv(std::vector{P2POp::send(in, peer), P2POp::recv(out, peer)}).wait();
  const auto told = listener.told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].name, world.rank() == 0 ? "hymn:send 0->1" : "hymn:recv 1<-any");
  EXPECT_TRUE(told[0].p2p);
  EXPECT_EQ(told[0].bytes, 16u);
  EXPECT_EQ(told[1].type, OpType::batch);
  EXPECT_EQ(told[1].bytes, 16u);  // what it has sent
}

/// All others tell `waiting` that they are done.
void wait_for_others(World& world, int waiting) {
  std::int32_t token = 1;
  if (world.rank() != waiting) return world.group().send(view_of(token), waiting, 9);
  for (int rank = 0; rank < world.size(); ++rank)
    if (rank != waiting) world.group().recv(view_of(token), rank, 9);
}

RANK_TEST(CompletionHook, OfFailures) {
  NEEDS_RANKS(2);
  for (const bool blocking : {true, false}) {
    ProcessGroup group = fresh_group(world);
    const Listener listener(group);
    group.barrier();
    std::int32_t one = 1;
    const CallOptions soon{.timeout = Timeout(100ms)};
    if (world.rank() == 0) {
      const Error error = failure_of([&] {
        if (blocking)
          group.all_reduce(view_of(one), ReduceOp::sum, soon);
        else
          group.all_reduce_async(view_of(one), ReduceOp::sum, soon).wait();
      });
      // The watchdog is sooner where this thread stands still before it waits.
      const std::string text = error.what();
      EXPECT_TRUE(error.kind() == ErrorKind::timeout ||
                  (!blocking && text.find("nobody waits for it") != text.npos))
          << text;
      const auto told = listener.told();
      ASSERT_EQ(told.size(), 2u);
      EXPECT_FALSE(told[1].ok());
      EXPECT_NE(told[1].error.find("all_reduce #2"), std::string::npos) << told[1].error;
      EXPECT_EQ(told[1].sequence, 2u);
      // A call that is refused is no operation.
      expect_error(ErrorKind::aborted, [&] { group.barrier(); });
      EXPECT_EQ(listener.told().size(), 2u);
    }
    for (int rank = 1; rank < world.size(); ++rank) wait_for_others(world, rank);
  }
}

RANK_TEST(CompletionHook, SeveralAndOneThatThrows) {
  ProcessGroup group = fresh_group(world);
  std::vector<int> order;
  group.on_completion([&](const CompletionInfo&) { order.push_back(1); });
  group.on_completion([](const CompletionInfo&) { throw std::runtime_error("a bad hook"); });
  group.on_completion([&](const CompletionInfo&) { order.push_back(3); });
  group.barrier();
  group.barrier_async().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 3, 1, 3}));
  expect_error(ErrorKind::usage, [&] { group.on_completion({}); }, {"hook"});
}

RANK_TEST(CompletionHook, MayMakeCalls) {
  ProcessGroup group = fresh_group(world);
  ProcessGroup other = fresh_group(world);
  std::vector<std::uint64_t> told;
  group.on_completion([&](const CompletionInfo& info) {
    told.push_back(info.sequence);
    std::int32_t one = 1;
    other.all_reduce(view_of(one));
    // On its own group, too: what it ends is told when this one is.
    if (info.sequence == 1) group.barrier();
  });
  group.barrier();
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(other.collective_sequence(), 2u);
}

RANK_TEST(CompletionHook, MayHoldItsGroup) {
  const auto alive = std::make_shared<int>(1);
  {
    ProcessGroup group = fresh_group(world);
    group.on_completion([group, alive](const CompletionInfo&) {});
    group.barrier();
    group.destroy();
  }
  EXPECT_EQ(alive.use_count(), 1);
}

RANK_TEST(WaitForPendingWorks, WaitsForAll) {
  ProcessGroup group = fresh_group(world);
  ProcessGroup other = fresh_group(world);
  std::vector<float> one(50'000, 1.0f);
  std::vector<float> two(100, 1.0f);
  const Work first = group.all_reduce_async(one);
  const Work second = group.all_reduce_async(two);
  group.wait_for_pending_works();
  EXPECT_TRUE(first.is_completed());
  EXPECT_TRUE(second.is_completed());
  EXPECT_EQ(two.back(), static_cast<float>(world.size()));
  group.wait_for_pending_works(0s);  // nothing is in flight
  other.wait_for_pending_works();
}

RANK_TEST(WaitForPendingWorks, ThrowsTheFirstError) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  std::int32_t one = 1;
  if (world.rank() == 0) {
    const CallOptions later{.timeout = Timeout(400ms)};
    const Work work = group.all_reduce_async(view_of(one), ReduceOp::sum, later);
    const Work next = group.barrier_async();
    const Error error = failure_of([&] { group.wait_for_pending_works(); }, {"all_reduce #1"});
    // The watchdog is sooner where this thread stands still before it waits.
    const std::string text = error.what();
    EXPECT_TRUE(error.kind() == ErrorKind::timeout || text.find("nobody waits for it") != text.npos)
        << text;
    EXPECT_TRUE(work.is_completed());
    EXPECT_TRUE(next.is_completed());
  }
  for (int rank = 1; rank < world.size(); ++rank) wait_for_others(world, rank);
}

// The patience of the caller: all stays as it is.
RANK_TEST(WaitForPendingWorks, LeavesInFlightWhatTakesLonger) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  std::int32_t one = 1;
  if (world.rank() == 0) {
    const Work work = group.all_reduce_async(view_of(one));
    expect_error(ErrorKind::timeout, [&] { group.wait_for_pending_works(50ms); },
                 {"still in flight"});
    EXPECT_FALSE(work.is_completed());
  }
  for (int rank = 1; rank < world.size(); ++rank) wait_for_others(world, rank);
  if (world.rank() != 0) group.all_reduce(view_of(one));
  group.wait_for_pending_works();
  EXPECT_EQ(one, world.size());
}

// --- Metrics

OperationMetrics metrics_of(const World& world, OpType type) {
  OperationMetrics sum;
  for (const OperationMetrics& one : world.metrics()) {
    if (one.type != type) continue;
    EXPECT_FALSE(one.path.empty());
    sum.operations += one.operations;
    sum.failures += one.failures;
    sum.bytes += one.bytes;
    sum.total += one.total;
    sum.waiting += one.waiting;
  }
  return sum;
}

TEST(Metrics, CountOperations) {
  on_ranks(
      [](World& world) {
        ProcessGroup group = fresh_group(world);
        std::vector<float> values(10, 1.0f);
        for (int i = 0; i < 3; ++i) group.all_reduce(values);
        group.all_reduce_async(values).wait();
        group.broadcast(values, 0);
        group.barrier_async().wait();
        EXPECT_GT(metrics_of(world, OpType::barrier).waiting, Duration::zero());
        const OperationMetrics reduced = metrics_of(world, OpType::all_reduce);
        EXPECT_EQ(reduced.operations, 4u);
        EXPECT_EQ(reduced.failures, 0u);
        EXPECT_EQ(reduced.bytes, 160u);
        EXPECT_GT(reduced.total, Duration::zero());
        EXPECT_GT(reduced.waiting, Duration::zero());
        EXPECT_EQ(metrics_of(world, OpType::broadcast).operations, 1u);
        EXPECT_EQ(metrics_of(world, OpType::gather).operations, 0u);
        const auto json = nlohmann::json::parse(world.metrics_json());
        EXPECT_EQ(json["rank"], world.rank());
        EXPECT_EQ(json["operations"].size(), world.metrics().size());
        const std::string line = "hymn_operations_total{rank=\"" + std::to_string(world.rank());
        EXPECT_NE(world.metrics_prometheus().find(line), std::string::npos);
      },
      {.metrics = true});
}

TEST(Metrics, CountFailures) {
  on_ranks(
      [](World& world) {
        NEEDS_RANKS(2);
        ProcessGroup group = fresh_group(world);
        std::int32_t one = 1;
        if (world.rank() == 0) {
          expect_error(ErrorKind::timeout, [&] {
            group.all_reduce(view_of(one), ReduceOp::sum, {.timeout = Timeout(50ms)});
          });
          const OperationMetrics metrics = metrics_of(world, OpType::all_reduce);
          EXPECT_EQ(metrics.operations, 1u);
          EXPECT_EQ(metrics.failures, 1u);
          EXPECT_GE(metrics.total, Duration(50ms));
          EXPECT_GE(metrics.waiting, Duration(50ms));
        }
        for (int rank = 1; rank < world.size(); ++rank) wait_for_others(world, rank);
      },
      {.metrics = true});
}

RANK_TEST(Metrics, AreOffUnlessAskedFor) {
  world.group().barrier();
  EXPECT_TRUE(world.metrics().empty());
}

TEST(Metrics, AreWrittenAtTheEnd) {
  const std::string base = (std::filesystem::temp_directory_path() /
                            ("hymn-metrics-" + std::to_string(::getpid()) + "-"))
                               .string();
  for (const std::string ending : {"", ".json"}) {
    ::setenv("HYMN_METRICS", (base + ending).c_str(), 1);
    std::mutex mutex;
    std::set<int> ranks;
    on_ranks([&](World& world) {
      world.group().barrier();
      std::lock_guard lock(mutex);
      ranks.insert(world.rank());
    });
    ::unsetenv("HYMN_METRICS");
    EXPECT_FALSE(ranks.empty());
    for (const int rank : ranks) {
      const std::string path = base + std::to_string(rank) + (ending.empty() ? ".prom" : ending);
      std::ifstream file(path);
      std::ostringstream text;
      text << file.rdbuf();
      EXPECT_NE(text.str().find("barrier"), std::string::npos) << path << ": " << text.str();
      EXPECT_EQ(text.str().find("# TYPE") != std::string::npos, ending.empty());
      std::filesystem::remove(path);
    }
  }
}

}  // namespace
}  // namespace hymn::test
