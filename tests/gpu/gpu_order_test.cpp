// Streams, graphs, deadlines and the cost of a call, on a real GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tests/gpu/real_gpu.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

using Floats = std::vector<float>;

TEST(GpuOrder, FollowsTheStream) {
  alone([](ProcessGroup& group) {
    const GpuDevice::Entry entry(real_gpu());
    RealStream stream;
    RealBuffer<std::uint32_t> flag({0});
    RealBuffer<float> source(Floats{3.0f});
    RealBuffer<float> values(Floats{0.0f});
    RealBuffer<float> result(Floats{0.0f});
    // NCCL loads a kernel when it is first wanted, for which it waits for all that runs on the GPU.
    group.all_reduce(result.view(), ReduceOp::premul_sum(2.0));
    stream.await_value(flag.memory().address(), 1);
    stream.copy(values.memory().address(), source.memory().address(), sizeof(float));
    group.all_reduce(values.view(), ReduceOp::premul_sum(2.0), {.stream = stream.get()});
    stream.copy(result.memory().address(), values.memory().address(), sizeof(float));
    const std::uint32_t go = 1;  // the host came here without waiting for the GPU
    flag.memory().write(&go, sizeof(go));
    stream.synchronize();
    EXPECT_EQ(result.values(), Floats{6.0f});
    group.wait_for_pending_works();
  });
}

TEST(GpuOrder, AStreamWaitsForAWork) {
  alone([](ProcessGroup& group) {
    const GpuDevice::Entry entry(real_gpu());
    RealStream stream;
    RealBuffer<float> values(Floats(1 << 22, 1.0f));
    RealBuffer<float> result(Floats(1, 0.0f));
    Work work = group.all_reduce_async(values.view(), ReduceOp::premul_sum(2.0));
    work.wait_on(stream.get());
    stream.copy(result.memory().address(), values.memory().address(), sizeof(float));
    stream.synchronize();
    EXPECT_EQ(result.values(), Floats{2.0f});
    work.wait();
  });
}

TEST(GpuOrder, GraphsCanBeLaunchedAgain) {
  alone([](ProcessGroup& group) {
    const GpuDevice::Entry entry(real_gpu());
    RealStream stream;
    RealBuffer<float> values(Floats{1.0f});
    group.all_reduce(values.view());
    RealCapture capture(stream);
    group.all_reduce(values.view(), ReduceOp::premul_sum(2.0), {.stream = stream.get()});
    capture.end();
    for (int i = 0; i < 3; ++i) capture.launch();
    stream.synchronize();
    EXPECT_EQ(values.values(), Floats{8.0f});
  });
}

TEST(GpuOrder, AStuckOneIsGivenUp) {
  alone([](ProcessGroup& group) {
    const GpuDevice::Entry entry(real_gpu());
    RealStream stream;
    RealBuffer<std::uint32_t> flag({0});
    RealBuffer<float> values(Floats{1.0f});
    group.all_reduce(values.view());
    stream.await_value(flag.memory().address(), 1);
    Work work = group.all_reduce_async(
        values.view(), {}, {.timeout = std::chrono::milliseconds(200), .stream = stream.get()});
    EXPECT_THROW(work.wait(), TimeoutError);
    EXPECT_TRUE(group.is_aborted());
    const std::uint32_t go = 1;
    flag.memory().write(&go, sizeof(go));
    stream.synchronize();
  });
}

// A figure, not a test: docs/gpu.md tells what it should be.
TEST(GpuOrder, TellsWhatACallCosts) {
  alone([](ProcessGroup& group) {
    const GpuDevice::Entry entry(real_gpu());
    RealStream stream;
    RealBuffer<float> values(Floats(1024, 0.0f));
    std::vector<double> microseconds;
    for (int i = 0; i < 1000; ++i) {
      const auto began = std::chrono::steady_clock::now();
      group.all_reduce(values.view(), {}, {.stream = stream.get()});
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - began;
      microseconds.push_back(took.count());
      if (i % 100 == 99) group.wait_for_pending_works();
    }
    std::nth_element(microseconds.begin(), microseconds.begin() + 500, microseconds.end());
    std::printf("enqueuing an all_reduce of 4 KiB on a stream: %.2f us (median of 1000)\n",
                microseconds[500]);
    stream.synchronize();
  });
}

}  // namespace
}  // namespace hymn::test
