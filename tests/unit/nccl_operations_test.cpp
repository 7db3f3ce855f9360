// Operations over NCCL without a world: channels, the order of launches, sends and receives, splits
// and aborts. All ranks are driven in turns by one thread, over the toy driver and NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/launch/launch_queue.hpp"
#include "collectives/nccl/nccl_algorithm.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "tests/unit/eventually.hpp"
#include "tests/unit/running.hpp"
#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Ints = std::vector<std::int32_t>;

class NcclOperations : public testing::Test {
 protected:
  static constexpr int ranks = 3;

  NcclOperations() {
    toy = &state;
    state.gpus = ranks;
    cuda = toy_cuda(state);
    for (int rank = 0; rank < ranks; ++rank) {
      gpus.push_back(std::make_shared<GpuDevice>(cuda, rank));
      queues.push_back(std::make_shared<LaunchQueue>());
    }
  }
  ~NcclOperations() override {
    for (const auto& group : channels)
      for (const auto& channel : group) channel->abort();
    EXPECT_TRUE(eventually([this] {
      for (const auto& group : channels)
        for (const auto& channel : group)
          if (!channel->is_gone()) return false;
      return true;
    }));
    EXPECT_THAT(state.violations, IsEmpty());
    works.clear();
    algorithms.clear();
    channels.clear();
    gpus.clear();
    toy = nullptr;
  }

  /// Of all ranks; its number.
  std::size_t make_group() {
    const std::uint64_t tag = 100 + 2 * channels.size();
    auto& group = channels.emplace_back();
    auto& theirs = algorithms.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      const auto gpu = gpus[static_cast<std::size_t>(rank)];
      NcclChannelParts parts{
          .nccl = {.nccl = toy_nccl(), .enter_gpu = [gpu] { gpu->make_current(); }},
          .gpu = gpu,
          .queue = queues[static_cast<std::size_t>(rank)],
          .exchange = std::make_shared<ThreadExchange>(hub, rank),
          .members = {0, 1, 2},
          .tag = tag,
          .pair_tag = tag + 1,
          .shape = {.rank = rank, .size = ranks}};
      group.push_back(std::make_shared<NcclChannel>(std::move(parts)));
      theirs.push_back(make_nccl_algorithm(group.back()));
    }
    return channels.size() - 1;
  }
  NcclChannel& channel(std::size_t group, int rank) {
    return *channels[group][static_cast<std::size_t>(rank)];
  }

  Running& start(std::size_t group, int rank, const Request& request, int peer = -1) {
    Running& running = *works.emplace_back(std::make_unique<Running>());
    running.request = request;
    running.call = {.request = &running.request, .peer = peer, .sequence = 1};
    algorithms[group][static_cast<std::size_t>(rank)]
        ->prepare(running.storage, running.call)
        .start();
    return running;
  }
  bool step_all() {
    bool all = true;
    for (const auto& running : works) {
      if (!running->done) running->done = running->storage.get()->step();
      all = all && running->done;
    }
    return all;
  }
  bool finish_all() {
    return eventually([this] { return step_all(); });
  }

  int count(const std::string& call) {
    std::lock_guard lock(state.mutex);
    return state.counts[call];
  }
  std::vector<std::string> reductions(int gpu) {
    std::vector<std::string> found;
    std::lock_guard lock(state.mutex);
    for (const std::string& call : state.calls[gpu])
      if (call.starts_with("all_reduce")) found.push_back(call);
    return found;
  }

  ToyState state;
  cuda_api::Functions cuda;
  std::shared_ptr<ThreadHub> hub = std::make_shared<ThreadHub>(ranks);
  std::vector<std::shared_ptr<GpuDevice>> gpus;
  std::vector<std::shared_ptr<LaunchQueue>> queues;
  std::vector<std::vector<std::shared_ptr<NcclChannel>>> channels;
  std::vector<Algorithms> algorithms;
  std::vector<std::unique_ptr<Running>> works;
};

// Kernels behind what NCCL gives up have to hear of it before they run.
TEST_F(NcclOperations, WhoDependsOnAChannelHearsOfItsEndFirst) {
  make_group();
  for (int rank = 0; rank < ranks; ++rank) start(0, rank, Request::barrier());
  ASSERT_TRUE(eventually([this] { return step_all(); }));
  const auto aborts = [this] {
    std::lock_guard lock(state.mutex);
    return state.counts["abort"];
  };
  int before = -1;
  channel(0, 0).set_before_abort([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    before = aborts();
  });
  channel(0, 0).abort();
  EXPECT_EQ(before, 0);
  EXPECT_TRUE(eventually([&] { return aborts() == 1; }));
  channel(0, 0).set_before_abort(nullptr);
}

// What a message has left undone is read by kernels behind it, too.
TEST_F(NcclOperations, WhoDependsOnAChannelHearsOfItsPairs) {
  make_group();
  int heard = 0;
  channel(0, 0).set_before_abort([&heard] { ++heard; });
  const auto pair = channel(0, 0).pair_with(1);
  EXPECT_FALSE(channel(0, 0).has_any_in_flight());
  pair->took_off();
  EXPECT_TRUE(channel(0, 0).has_any_in_flight());
  pair->landed();
  channel(0, 0).column_of({0, 1})->abort();
  EXPECT_EQ(heard, 1);
  pair->abort();
  EXPECT_EQ(heard, 2);
  channel(0, 1).set_before_abort([&heard] { ++heard; });
  const auto rests = channel(0, 1).pair_with(0);
  channel(0, 1).rest();
  rests->abort();
  EXPECT_EQ(heard, 2) << "its group has ended in good order";
  channel(0, 0).rest();
}

// NCCL frees the communicator in ncclCommAbort, also while another thread is about to use it.
TEST_F(NcclOperations, NothingIsAbortedUnderACallOnIt) {
  make_group();
  for (int rank = 0; rank < ranks; ++rank) start(0, rank, Request::barrier());
  ASSERT_TRUE(finish_all());
  {
    std::lock_guard lock(state.mutex);
    state.held = {"all_reduce"};
  }
  Ints values{1};
  Running* running = nullptr;
  std::jthread caller([&] { running = &start(0, 0, Request::all_reduce(values, values)); });
  EXPECT_TRUE(eventually([this] { return count("all_reduce") == ranks + 1; }));
  channel(0, 0).abort();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(count("abort"), 0);
  {
    std::lock_guard lock(state.mutex);
    state.held.clear();
    state.changed.notify_all();
  }
  caller.join();
  EXPECT_TRUE(eventually([this] { return count("abort") == 1; }));
  running->storage.get()->abandon("the test wants it");
}

TEST_F(NcclOperations, CollectivesAreCarriedOut) {
  const std::size_t group = make_group();
  std::vector<Ints> values = {{1, 10}, {2, 20}, {3, 30}};
  for (int rank = 0; rank < ranks; ++rank) {
    Ints& mine = values[static_cast<std::size_t>(rank)];
    start(group, rank, Request::all_reduce(mine, mine));
  }
  EXPECT_TRUE(finish_all());
  for (const Ints& mine : values) EXPECT_THAT(mine, ElementsAre(6, 60));
}

TEST_F(NcclOperations, LaunchesKeepTheOrderOfStarts) {
  const std::size_t ready = make_group();
  const std::size_t late = make_group();
  std::vector<Ints> values(ranks, Ints{1});
  for (int rank = 0; rank < ranks; ++rank)
    start(ready, rank,
          Request::all_reduce(values[static_cast<std::size_t>(rank)],
                              values[static_cast<std::size_t>(rank)]));
  ASSERT_TRUE(finish_all());
  std::vector<Ints> more(ranks, Ints{1});
  for (int rank = 0; rank < ranks; ++rank) {
    Ints& mine = more[static_cast<std::size_t>(rank)];
    start(late, rank, Request::all_reduce(mine, mine));
    start(ready, rank,
          Request::all_reduce(values[static_cast<std::size_t>(rank)],
                              values[static_cast<std::size_t>(rank)]));
  }
  EXPECT_TRUE(finish_all());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<std::string> found = reductions(rank);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0], found[2]);
    EXPECT_NE(found[0], found[1]) << "a later call has overtaken one before it";
  }
}

TEST_F(NcclOperations, MessagesConcernTheirPairAlone) {
  const std::size_t group = make_group();
  Ints out{7};
  Ints back{8};
  Ints at_one{0};
  Ints at_zero{0};
  start(group, 0, Request::send(out, 1), 1);
  start(group, 0, Request::recv(at_zero, 1), 1);
  start(group, 1, Request::send(back, 0), 0);
  Running& received = start(group, 1, Request::recv(at_one, 0), 0);
  EXPECT_TRUE(finish_all()) << "rank 2 never comes";
  EXPECT_THAT(at_one, ElementsAre(7));
  EXPECT_THAT(at_zero, ElementsAre(8));
  EXPECT_EQ(received.storage.get()->status().source, 0);
  EXPECT_EQ(count("init"), 2);
}

TEST_F(NcclOperations, AReceiveThatWaitsHoldsUpNoCollective) {
  const std::size_t group = make_group();
  Ints early{0};
  start(group, 0, Request::recv(early, 1), 1);
  std::vector<Ints> values(ranks, Ints{1});
  for (int rank = 0; rank < ranks; ++rank) {
    Ints& mine = values[static_cast<std::size_t>(rank)];
    start(group, rank, Request::all_reduce(mine, mine));
  }
  EXPECT_TRUE(eventually([&] {
    step_all();
    return works[1]->done && works[2]->done && works[3]->done;
  }));
  Ints late{5};
  start(group, 1, Request::send(late, 0), 0);
  EXPECT_TRUE(finish_all());
  EXPECT_THAT(early, ElementsAre(5));
}

TEST_F(NcclOperations, TwinsAreSplitWhenTheParentIsQuiet) {
  const std::size_t parent = make_group();
  const std::size_t twin = make_group();
  std::vector<Ints> values(ranks, Ints{1});
  std::vector<Ints> more(ranks, Ints{2});
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    channel(twin, rank).set_twin(channels[parent][index]);
    start(parent, rank, Request::all_reduce(values[index], values[index]));
    start(twin, rank, Request::all_reduce(more[index], more[index]));
  }
  EXPECT_TRUE(finish_all());
  EXPECT_THAT(more[0], ElementsAre(6));
  EXPECT_EQ(channel(parent, 0).splits(), 1u);
  EXPECT_EQ(count("split"), ranks);
  EXPECT_EQ(count("init"), ranks);
}

TEST_F(NcclOperations, WhatIsGivenUpIsAbortedAndKept) {
  const std::size_t group = make_group();
  std::vector<Ints> values(ranks, Ints{1});
  {
    std::lock_guard lock(state.mutex);
    state.held = {"collective", "abort"};
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Ints& mine = values[static_cast<std::size_t>(rank)];
    start(group, rank, Request::all_reduce(mine, mine));
  }
  EXPECT_TRUE(eventually([this] {
    step_all();
    return count("all_reduce") == ranks && works[0]->storage.get()->is_enqueued();
  }));
  const std::unique_ptr<AbandonedOperation> abandoned =
      works[0]->storage.get()->abandon("the test wants it");
  ASSERT_NE(abandoned, nullptr);
  EXPECT_FALSE(abandoned->done()) << "NCCL has not let go";
  {
    std::lock_guard lock(state.mutex);
    state.held.clear();
    state.changed.notify_all();
  }
  EXPECT_TRUE(eventually([&] { return abandoned->done(); }));
  for (std::size_t rank = 1; rank < ranks; ++rank)
    if (auto other = works[rank]->storage.get()->abandon("too")) {
      EXPECT_TRUE(eventually([&] { return other->done(); }));
    }
}

}  // namespace
}  // namespace hymn::test
