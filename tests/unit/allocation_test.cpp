// In a steady state a small blocking collective takes nothing from the heap: ranks as threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/unit/allocation_count.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

TEST(Allocations, AreCounted) {
  const std::size_t before = allocations_of_this_thread();
  // Called as functions: a compiler may leave out the allocation of a new expression.
  constexpr std::align_val_t wide{128};
  void* const one = ::operator new(4);
  void* const two = ::operator new[](800);
  void* const three = ::operator new(128, wide);
  EXPECT_EQ(allocations_of_this_thread() - before, 3u);
  ::operator delete(one);
  ::operator delete[](two);
  ::operator delete(three, wide);
}

TEST(Allocations, AreSeenInTheLibrary) {
  run_ranks(1, [](World& world) {
    const std::size_t before = allocations_of_this_thread();
    float value = 1;
    world.group().all_reduce_async(view_of(value)).wait();
    EXPECT_GT(allocations_of_this_thread(), before) << "a Work lives on the heap";
  });
}

/// What 250 calls take, after some to warm up: the least of four times. Who has waited for long,
/// for a rank that has lost its core, looks at what the others call, which takes something: that
/// does not count.
std::size_t taken_by(const std::function<void()>& call) {
  for (int i = 0; i < 100; ++i) call();
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (int time = 0; time < 4; ++time) {
    std::size_t taken = 0;
    for (int i = 0; i < 250; ++i) {
      const std::size_t before = allocations_of_this_thread();
      const auto began = std::chrono::steady_clock::now();
      call();
      const bool was_long = std::chrono::steady_clock::now() - began >= 20ms;
      if (!was_long) taken += allocations_of_this_thread() - before;
    }
    least = std::min(least, taken);
  }
  return least;
}

TEST(Allocations, OfBlockingCollectivesAreNone) {
  for (const int ranks : {1, 2, 3}) {
    for (const Timeout limit : {Timeout(60s), Timeout::none()}) {
      run_ranks(ranks,
                [&](World& world) {
                  ProcessGroup& group = world.group();
                  std::vector<float> values(16);
                  std::vector<float16> halves(16);
                  std::vector<std::int8_t> bytes(16);
                  std::vector<float> blocks(16 * static_cast<std::size_t>(ranks));
                  EXPECT_EQ(taken_by([&] { group.all_reduce(values); }), 0u);
                  EXPECT_EQ(taken_by([&] { group.all_reduce(halves, ReduceOp::avg); }), 0u);
                  EXPECT_EQ(
                      taken_by([&] { group.all_reduce(bytes, ReduceOp::max, {.timeout = 10s}); }),
                      0u);
                  EXPECT_EQ(taken_by([&] { group.broadcast(values, 0); }), 0u);
                  EXPECT_EQ(taken_by([&] { group.all_gather(values, blocks); }), 0u);
                  EXPECT_EQ(taken_by([&] { group.scan(values); }), 0u);
                  EXPECT_EQ(taken_by([&] { group.exscan(values); }), 0u);
                  EXPECT_EQ(taken_by([&] { group.barrier(); }), 0u);
                },
                {.timeout = limit});
    }
  }
}

}  // namespace
}  // namespace hymn::test
