// The check for NaN by a kernel, on a real GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "tests/gpu/real_gpu.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t many = std::size_t{1} << 22;

/// The words of the refusal; empty: it was sent.
template <class T>
std::string refusal(ProcessGroup& group, const RealBuffer<T>& buffer) {
  try {
    group.broadcast(buffer.view(), 0);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

template <class T>
void expect_found(ProcessGroup& group, T nan) {
  std::vector<T> values(many + 1, T(1.0f));
  EXPECT_EQ(refusal(group, RealBuffer<T>(values)), "");
  for (const std::size_t first : {std::size_t{0}, many / 3, many}) {
    values.assign(many + 1, T(1.0f));
    values[first] = values.back() = nan;
    EXPECT_THAT(refusal(group, RealBuffer<T>(values)),
                HasSubstr("element " + std::to_string(first) + " of the"));
  }
}

TEST(GpuNan, TheFirstOneIsFound) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  run_ranks(1, [](World& world) {
    ProcessGroup group = world.new_group({0}, {.path = "nccl", .nan_check = true});
    expect_found(group, std::numeric_limits<float>::quiet_NaN());
    expect_found(group, -std::numeric_limits<double>::signaling_NaN());
    expect_found(group, float16(std::nanf("")));
    expect_found(group, bfloat16(std::nanf("")));
  });
}

}  // namespace
}  // namespace hymn::test
