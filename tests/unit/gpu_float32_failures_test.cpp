// Reductions through NCCL in float32 that fail or are given up: nothing passes for a sum, and no
// memory is left.
#include <atomic>
#include <memory>

#include "tests/unit/gpu_float32.hpp"

namespace hymn::test {
namespace {

/// One buffer for each rank. They outlive the worlds: what was given up is still on its way.
class Buffers {
 public:
  Buffers(ToyGpus& gpus, const std::vector<std::vector<bfloat16>>& values) : gpus_(gpus) {
    for (int rank = 0; rank < ranks; ++rank)
      buffers_.push_back(std::make_unique<ToyBuffer<bfloat16>>(
          gpus, rank, values.at(static_cast<std::size_t>(rank))));
  }
  /// Nothing is left that was there for the time of an operation: all kernels have run.
  ~Buffers() {
    EXPECT_TRUE(eventually([this] { return gpus_.open_on_streams() == 0; }))
        << gpus_.open_on_streams() << " allocations are left";
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  BufferView of(const World& world) const {
    return buffers_.at(static_cast<std::size_t>(world.rank()))->view();
  }

 private:
  ToyGpus& gpus_;
  std::vector<std::unique_ptr<ToyBuffer<bfloat16>>> buffers_;
};

/// The next call of that name fails on some rank; all others hear of it.
class GpuFloat32Failures : public Float32Test, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Calls, GpuFloat32Failures,
                         testing::Values("allocate_on", "launch", "all_reduce", "release_on"));

TEST_P(GpuFloat32Failures, NothingIsTakenForASumAndNothingIsLeft) {
  const Buffers buffers(gpus, all_given());
  std::atomic<int> failed = 0;
  run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2, 3});
    group.all_reduce(buffers.of(world));
    group.barrier();
    if (world.rank() == 0) gpus.fail(GetParam(), GetParam() == std::string("all_reduce") ? 2 : 719);
    group.barrier();
    try {
      group.all_reduce(buffers.of(world));
      // Another rank failed when this one had its sum.
      const auto* const sum = static_cast<const bfloat16*>(buffers.of(world).data);
      EXPECT_EQ(std::vector<bfloat16>(sum, sum + odd),
                sums<bfloat16>(ranks * rounded_once<bfloat16>));
    } catch (const Error&) {
      ++failed;
    }
    world.group().barrier();
  });
  EXPECT_GE(failed, 1);
}

class GpuFloat32Aborts : public Float32Test {};

TEST_F(GpuFloat32Aborts, WhatIsAbortedFreesItsMemoryWhenNcclHasLetGo) {
  const Buffers buffers(gpus, all_given());
  run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2, 3});
    group.all_reduce(buffers.of(world));
    group.barrier();
    if (world.rank() == 0) {
      gpus.hold("collective");
      gpus.hold("abort");
    }
    group.barrier();
    Work work = group.all_reduce_async(buffers.of(world));
    EXPECT_TRUE(eventually([&] { return work.test(), gpus.count("all_reduce") == 2 * ranks; }));
    world.group().barrier();
    group.abort("the test wants it so");
    EXPECT_THAT(thrown_by<AbortedError>([&] { work.wait(); }), HasSubstr("the test wants it so"));
    world.group().barrier();
    EXPECT_EQ(gpus.open_on_streams(), ranks) << "NCCL is still at it";
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    EXPECT_TRUE(eventually([this] { return gpus.open_on_streams() == 0; }));
    world.group().barrier();
  });
}

// NCCL has been called, but has not come to its stream: what it will put there still needs memory.
TEST_F(GpuFloat32Aborts, WhatIsAbortedWhileNcclIsAtItFreesItsMemory) {
  const Buffers buffers(gpus, all_given());
  run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2, 3}, {.nccl = {.init = NcclInit::eager}});
    group.barrier();
    if (world.rank() == 0) gpus.hold("settling");
    group.barrier();
    Work work = group.all_reduce_async(buffers.of(world));
    EXPECT_TRUE(eventually([&] { return work.test(), gpus.count("all_reduce") == ranks; }));
    world.group().barrier();
    group.abort("the test wants it so");
    EXPECT_THAT(thrown_by<AbortedError>([&] { work.wait(); }), HasSubstr("the test wants it so"));
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    EXPECT_TRUE(eventually([this] { return gpus.open_on_streams() == 0; }));
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
