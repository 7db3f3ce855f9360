// What a first machine with several GPUs would have met: the toy driver forbids what a real one
// does, and waits where a real one would.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/error.hpp"
#include "tests/support/all_are.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuFaults : public ToyGpuTest {
 protected:
  static Config through_windows() {
    Config config;
    config.path = PathPolicy::parse("cuda_p2p,threads", "HYMN_PATH");
    return config;
  }
  static bool has_kernels() { return !cuda::kernel_image().empty(); }
};

// The driver loads a kernel when it is first wanted, and waits for the kernels that run then.
TEST_F(GpuFaults, NoKernelIsLoadedBesideOneThatWaits) {
  if (!has_kernels()) GTEST_SKIP() << "hymn was built without nvcc";
  std::atomic<bool> has_called = false;
  gpus.run(
      [&](World& world) {
        Buffer ints(gpus, world.rank(), {1, 2});
        ToyBuffer<float> floats(gpus, world.rank(), {1.0F, 2.0F});
        ToyBuffer<float> all(gpus, world.rank(), std::vector<float>(4));
        if (world.rank() == 1) {
          EXPECT_TRUE(eventually([&has_called] { return has_called.load(); }));
        }
        std::vector<Work> works;
        works.push_back(world.group().all_reduce_async(ints.view()));
        works.push_back(world.group().all_reduce_async(floats.view(), ReduceOp::max));
        works.push_back(world.group().all_gather_async(floats.view(), all.view()));
        has_called = true;
        for (Work& work : works) work.wait();
        world.group().barrier();
      },
      {}, through_windows());
}

// NCCL's kernels wait for other GPUs as well.
TEST_F(GpuFaults, TheSearchForNanIsLoadedBeforeNcclWaits) {
  if (!has_kernels()) GTEST_SKIP() << "hymn was built without nvcc";
  gpus.run([this](World& world) {
    const int me = world.rank();
    ProcessGroup checked = world.new_group({0, 1}, {.nan_check = true});
    Buffer buffer(gpus, me, {1});
    checked.all_reduce(buffer.view());  // no whole number is NaN: nothing is searched
    ToyBuffer<float> floats(gpus, me, {1.0F});
    void* const stream = gpus.make_stream(me);
    void* const other = gpus.make_stream(me);
    world.group().all_reduce(buffer.view());
    world.group().barrier();
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    world.group().all_reduce(buffer.view(), {}, {.stream = stream});
    checked.all_reduce(floats.view(), {}, {.stream = other});
    world.group().barrier();
    if (me == 0) gpus.release();
    EXPECT_TRUE(gpus.synchronize(other));
    EXPECT_EQ(floats.values(), std::vector<float>{2.0F});
    world.group().wait_for_pending_works();
    checked.wait_for_pending_works();
    world.group().barrier();
  });
}

// The mode "global" is that of PyTorch's graphs: any thread's call may break the capture.
TEST_F(GpuFaults, ACaptureIsNotBrokenByThreadsThatWait) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer buffer(gpus, me, {1});
    void* const stream = gpus.make_stream(me);
    world.group().all_reduce(buffer.view());
    world.group().barrier();
    if (me == 0) gpus.hold("collective");
    world.group().barrier();
    Work work = world.group().all_reduce_async(buffer.view());
    if (me == 0) {
      gpus.capture(stream);
      EXPECT_FALSE(work.test());
      const int before = gpus.queries();
      EXPECT_TRUE(eventually([&] { return gpus.queries() > before; })) << "rank 1 does not look";
      gpus.end_capture(stream);
      gpus.release();
    }
    work.wait();
    EXPECT_EQ(buffer.values(), Ints{4});
    world.group().barrier();
  });
}

// Threads of hymn's own launch, too: on each of them it is another stream.
TEST_F(GpuFaults, TheDefaultStreamOfAThreadIsRefused) {
  gpus.run([this](World& world) {
    void* const of_thread = reinterpret_cast<void*>(std::uintptr_t{2});
    Buffer buffer(gpus, world.rank(), {1});
    const std::function<void()> calls[] = {
        [&] { world.group().all_reduce(buffer.view(), {}, {.stream = of_thread}); },
        [&] { world.group().barrier({.stream = of_thread}); },
        [&] { world.group().all_reduce_async(buffer.view()).wait_on(of_thread); }};
    for (const auto& call : calls)
      EXPECT_THAT(thrown_by<UsageError>(call), HasSubstr("cudaStreamPerThread"));
    world.group().wait_for_pending_works();
    world.group().barrier();
  });
}

/// Makes a call in each of so many groups, on a stream each, and opens the streams of which
/// `is_open` does not hold only when the others have begun.
void call_in_groups(ToyGpus& gpus, World& world, std::size_t groups,
                    const std::function<bool(std::size_t)>& is_open) {
  std::vector<ProcessGroup> all;
  std::vector<void*> streams;
  std::vector<std::unique_ptr<ToyBuffer<float>>> buffers;
  std::vector<std::function<void()>> open;
  for (std::size_t i = 0; i < groups; ++i) {
    all.push_back(world.new_group({0, 1}));
    streams.push_back(gpus.make_stream(world.rank()));
    buffers.push_back(std::make_unique<ToyBuffer<float>>(
        gpus, world.rank(), std::vector<float>(std::size_t{1} << 14, 1.0F)));
    if (!is_open(i)) open.push_back(gpus.gate(streams[i]));
  }
  world.group().barrier();
  std::vector<Work> works;
  for (std::size_t i = 0; i < groups; ++i)
    works.push_back(all[i].all_reduce_async(
        buffers[i]->view(), {}, {.timeout = std::chrono::seconds(10), .stream = streams[i]}));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what can run does
  for (const auto& act : open) act();
  for (std::size_t i = 0; i < groups; ++i) {
    works[i].wait();
    EXPECT_TRUE(all_are(buffers[i]->values(), 2.0F));
  }
  world.group().barrier();
}

// Each GPU runs the kernels of two groups, the other those of two others: if these filled it, each
// would be waited for by one that has no room.
TEST_F(GpuFaults, KernelsOfSeveralGroupsFindRoomBesideEachOther) {
  if (!has_kernels()) GTEST_SKIP() << "hymn was built without nvcc";
  gpus.run(
      [this](World& world) {
        call_in_groups(gpus, world, 4, [&world](std::size_t group) {
          return (group == 1 || group == 2) == (world.rank() == 0);
        });
      },
      {}, through_windows());
}

// There is room for the kernels of half of them.
TEST_F(GpuFaults, KernelsOfManyGroupsTakeTurns) {
  if (!has_kernels()) GTEST_SKIP() << "hymn was built without nvcc";
  gpus.run(
      [this](World& world) {
        call_in_groups(gpus, world, 16,
                       [&world](std::size_t group) { return (group < 8) == (world.rank() == 0); });
      },
      {}, through_windows());
}

}  // namespace
}  // namespace hymn::test
