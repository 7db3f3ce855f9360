// Kernels whose peer does not come: they end when they are told to, or at their limit, and say for
// whom they have waited.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string_view>

#include "tests/unit/peer_scene.hpp"

namespace hymn::test {
namespace {

using cuda::PeerFailure;

struct Data {
  std::vector<float> in = std::vector<float>(1000, 1.0F);
  std::vector<float> out = std::vector<float>(1000, -1.0F);
  PeerLaunch launch(const char* kernel, std::uint64_t limit) {
    PeerLaunch launch{kernel, 2, {}};
    launch.call.input = in.data();
    launch.call.output = out.data();
    launch.call.bytes = in.size() * sizeof(float);
    launch.call.limit = limit;
    launch.call.root = 1;  // of a reduce
    return launch;
  }
};

class PeerFailures : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, PeerFailures,
                         testing::Values("hymn_all_reduce_one_shot_float32_sum",
                                         "hymn_all_reduce_two_shot_float32_sum",
                                         "hymn_reduce_float32_sum"),
                         [](const auto& method) {
                           const std::string_view kernel(method.param);
                           return kernel.find("one_shot") != kernel.npos   ? "OneShot"
                                  : kernel.find("two_shot") != kernel.npos ? "TwoShot"
                                                                           : "Reduce";
                         });

TEST_P(PeerFailures, ARankThatNeverComesIsNamedAtTheLimit) {
  PeerScene scene(3, 8192);
  std::vector<Data> data(3);
  // Of these two, who comes late must not be taken for the one that never comes.
  for (const unsigned rank : {0u, 1u})
    for (unsigned block = 0; block < 2; ++block)
      scene.head(rank).reached[static_cast<unsigned>(cuda::PeerPhase::staged)][block][1 - rank] = 1;
  {
    std::jthread first([&] { scene.run_rank(0, {data[0].launch(GetParam(), 20 * millisecond)}); });
    scene.run_rank(1, {data[1].launch(GetParam(), 20 * millisecond)});
  }
  for (const unsigned rank : {0u, 1u}) {
    EXPECT_EQ(scene.status(rank), status_of(PeerFailure::timed_out, 2));
    EXPECT_EQ(data[rank].out.front(), -1.0F) << "nothing is written without all inputs";
  }
}

TEST_P(PeerFailures, WhoIsToldToEndEnds) {
  PeerScene scene(2, 8192);
  Data data;
  {
    std::jthread waiting([&] { scene.run_rank(0, {data.launch(GetParam(), 0)}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(scene.aborted()).store(1, std::memory_order_release);
  }
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::aborted, 1));
  EXPECT_EQ(data.out.front(), -1.0F);
}

// The first kernel of rank 0 has failed. Were its next one to go on, rank 1, which comes late,
// would take the second call's input for the first one's.
TEST_P(PeerFailures, NothingRunsBehindAKernelThatHasFailed) {
  PeerScene scene(2, 8192);
  Data first;
  Data second;
  second.in.assign(1000, 5.0F);
  scene.run_rank(0, {first.launch(GetParam(), millisecond), second.launch(GetParam(), 0)});
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::timed_out, 1));
  EXPECT_EQ(second.out.front(), -1.0F);
  EXPECT_EQ(scene.head(0).kernels, 0u);
  Data late;
  scene.run_rank(1, {late.launch(GetParam(), 20 * millisecond)});
  if (scene.status(1) == 0) {
    EXPECT_EQ(late.out, std::vector<float>(1000, 2.0F));  // what both gave to the first call
  } else {
    EXPECT_EQ(scene.status(1), status_of(PeerFailure::timed_out, 0));
  }
}

// What comes behind an NCCL operation that was given up must not show what that has left.
TEST_P(PeerFailures, NothingIsShownBehindWhatWasGivenUp) {
  PeerScene scene(2, 8192);
  Data left;
  Data other;
  scene.aborted() = 1;
  PeerLaunch behind = left.launch(GetParam(), 0);
  behind.call.checks_first = 1;
  scene.run_rank(0, {behind});
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::aborted, 0));
  scene.aborted() = 0;
  scene.run_rank(1, {other.launch(GetParam(), 5 * millisecond)});
  EXPECT_EQ(scene.status(1), status_of(PeerFailure::timed_out, 0));
  EXPECT_EQ(other.out.front(), -1.0F);
}

// A peer that dies between the two steps: its input is there, its share is not.
TEST(PeerDeath, APeerThatDiesBetweenTheStepsIsNamed) {
  PeerScene scene(2, 8192);
  Data data;
  for (unsigned block = 0; block < 2; ++block)
    scene.head(0).reached[static_cast<unsigned>(cuda::PeerPhase::staged)][block][1] = 1;
  scene.run_rank(0, {data.launch("hymn_all_reduce_two_shot_float32_sum", 10 * millisecond)});
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::timed_out, 1));
}

// What NCCL has brought, or has not, before a kernel: rank 0 has folded twice, and so have others.
class InterHostFailures : public testing::Test {
 protected:
  InterHostFailures() {
    for (unsigned rank = 0; rank < 2; ++rank) scene.head(rank).kernels = 2;
    scene.head(0).crossed = 2;
  }
  void run(std::uint64_t limit = 20 * millisecond) {
    PeerLaunch first = data[0].launch("hymn_all_gather", limit);
    PeerLaunch second = data[1].launch("hymn_all_gather", limit);
    for (PeerLaunch* const launch : {&first, &second})
      launch->call.bytes = launch->call.stride = sizeof(float);
    first.call.has_crossed = 1;
    scene.run({{first}, {second}});
  }
  PeerScene scene{2, 8192};
  std::vector<Data> data = std::vector<Data>(2);
};

TEST_F(InterHostFailures, WhatIsWholeIsSpread) {
  run(20'000 * millisecond);
  for (const unsigned rank : {0u, 1u}) {
    EXPECT_EQ(scene.status(rank), 0u);
    EXPECT_EQ(data[rank].out[1], 1.0F);
  }
}

TEST_F(InterHostFailures, WhatWasNotFoldedElsewhereIsNotSpread) {
  scene.head(0).crossed = 1;
  run();
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::not_crossed, 0));
  EXPECT_EQ(scene.status(1), status_of(PeerFailure::timed_out, 0));
  EXPECT_EQ(data[1].out.front(), -1.0F);
}

TEST_F(InterHostFailures, WhatWasGivenUpIsNotSpread) {
  scene.aborted() = 1;
  run();
  EXPECT_EQ(scene.status(0), status_of(PeerFailure::not_crossed, 0));
  EXPECT_NE(scene.status(1), 0u);
  EXPECT_EQ(data[1].out.front(), -1.0F);
}

}  // namespace
}  // namespace hymn::test
