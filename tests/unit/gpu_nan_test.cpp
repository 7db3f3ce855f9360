// The check for NaN in the memory of GPUs: ranks as threads over doubles of the driver and of NCCL,
// which run the kernels' own bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <complex>
#include <limits>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/hymn.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

class GpuNan : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty())
      GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
  }
  ~GpuNan() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }

  ProcessGroup checked(World& world) {
    return world.new_group({0, 1}, {.description = "checked", .nan_check = true});
  }
  ToyGpus gpus{2};
};

TEST_F(GpuNan, IsFoundBeforeAnythingIsSent) {
  gpus.run([this](World& world) {
    ProcessGroup group = checked(world);
    const int me = world.rank();
    ToyBuffer<float> sum(gpus, me, {1, infinity, me == 1 ? nan : 3, nan});
    EXPECT_THAT(thrown_by<UsageError>([&] { group.all_reduce(sum.view()); }),
                HasSubstr(me == 1 ? "element 2 of the 4 elements of float32 that all_reduce would "
                                    "send is a NaN"
                                  : "element 3 of the 4 elements"));
    EXPECT_FALSE(group.is_aborted());
    ToyBuffer<float> sound(gpus, me, {1, infinity});
    group.all_reduce(sound.view());
    EXPECT_EQ(sound.values(), (std::vector<float>{2, infinity}));
  });
  EXPECT_EQ(gpus.count("all_reduce"), 2);
}

TEST_F(GpuNan, IsFoundInAllTypesThatHaveIt) {
  gpus.run([this](World& world) {
    ProcessGroup group = checked(world);
    const int me = world.rank();
    const auto refuses = [&](auto value, const char* name) {
      using T = decltype(value);
      ToyBuffer<T> buffer(gpus, me, {T(), T(), value});
      EXPECT_THAT(thrown_by<UsageError>([&] { group.broadcast(buffer.view(), me); }),
                  HasSubstr(std::string("element 2 of the 3 elements of ") + name));
    };
    refuses(float16(nan), "float16");
    refuses(bfloat16(-nan), "bfloat16");
    refuses(std::numeric_limits<double>::signaling_NaN(), "float64");
    refuses(std::complex<float>(0, nan), "complex64");
    refuses(std::complex<double>(0, std::nan("7")), "complex128");
    group.barrier();
  });
}

// What is on a stream is checked when the stream has come to it, and not before.
TEST_F(GpuNan, ComesAfterWhatTheStreamHolds) {
  gpus.run([this](World& world) {
    ProcessGroup group = checked(world);
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    ToyBuffer<float> sum(gpus, me, {nan});
    gpus.enqueue(stream, [&] { sum.data()[0] = 7; });
    group.all_reduce(sum.view(), {}, {.stream = stream});
    ASSERT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(sum.values(), std::vector<float>{14});
    gpus.enqueue(stream, [&] { sum.data()[0] = nan; });
    EXPECT_THAT(
        thrown_by<UsageError>([&] { group.all_reduce(sum.view(), {}, {.stream = stream}); }),
        HasSubstr("element 0 of the 1 elements"));
    group.barrier();
  });
}

TEST_F(GpuNan, AStreamThatStandsStillRunsIntoTheLimit) {
  gpus.run([this](World& world) {
    ProcessGroup group = checked(world);
    const int me = world.rank();
    ToyBuffer<float> sum(gpus, me, {1});
    group.all_reduce(sum.view());
    group.barrier();
    if (me == 0) gpus.hold("collective");
    group.barrier();
    void* const stream = gpus.make_stream(me);
    (void)world.group().all_reduce_async(sum.view(), {}, {.stream = stream});
    const std::string text = thrown_by<TimeoutError>([&] {
      group.all_reduce(sum.view(), {},
                       {.timeout = std::chrono::milliseconds(30), .stream = stream});
    });
    EXPECT_THAT(text, HasSubstr("the GPU has not reached the check for NaN"));
    EXPECT_THAT(text, HasSubstr("checked"));
    group.barrier();
    gpus.release();
    ASSERT_TRUE(gpus.synchronize(stream));
    ToyBuffer<float> other(gpus, me, {2});
    group.all_reduce(other.view());
    EXPECT_EQ(other.values(), std::vector<float>{4});
  });
}

TEST_F(GpuNan, AGraphCannotHoldIt) {
  gpus.run([this](World& world) {
    ProcessGroup group = checked(world);
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    ToyBuffer<float> sum(gpus, me, {1});
    group.all_reduce(sum.view());
    gpus.capture(stream);
    EXPECT_THAT(
        thrown_by<UnsupportedError>([&] { group.all_reduce(sum.view(), {}, {.stream = stream}); }),
        HasSubstr("a CUDA graph cannot capture the check for NaN"));
    gpus.end_capture(stream);
    group.barrier();
  });
}

TEST_F(GpuNan, AKernelThatCannotBeLaunchedIsTold) {
  gpus.run([this](World& world) {
    ProcessGroup group = checked(world);
    const int me = world.rank();
    ToyBuffer<float> sum(gpus, me, {1});
    group.barrier();
    if (me == 0) gpus.fail("launch", 209);
    if (me == 0) {
      const std::string text = thrown_by<BackendError>([&] { group.all_reduce(sum.view()); });
      EXPECT_THAT(text, HasSubstr("cuLaunchKernel"));
      EXPECT_THAT(text, HasSubstr("compute capability"));
    }
    group.barrier();
    group.all_reduce(sum.view());
    EXPECT_EQ(sum.values(), std::vector<float>{2});
  });
}

}  // namespace
}  // namespace hymn::test
