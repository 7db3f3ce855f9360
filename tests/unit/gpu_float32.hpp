// What tests of reductions in float32 begin with: values of which NCCL by itself would lose much.
#pragma once

#include <cmath>
#include <functional>
#include <type_traits>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {

inline constexpr int ranks = 4;
inline constexpr std::size_t odd = 1003;  ///< elements: no whole number of packs

/// What is added to 1 and lost, though not three of them.
template <class Half>
inline constexpr float small = std::is_same_v<Half, float16> ? 0x1p-12f : 0x1p-9f;
/// 1 and three of them, rounded once: the next number.
template <class Half>
inline constexpr float rounded_once = std::is_same_v<Half, float16> ? 1 + 0x1p-10f : 1 + 0x1p-7f;

class Float32Test : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty())
      GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
    config.nccl.reduce_in_float32 = true;
  }
  ~Float32Test() override {
    EXPECT_THAT(gpus.violations(), IsEmpty());
    EXPECT_TRUE(eventually([this] { return gpus.open_on_streams() == 0; }))
        << gpus.open_on_streams() << " allocations are left";
  }
  void run(const std::function<void(World&)>& body) { gpus.run(body, {}, config); }

  /// 1 on the first rank, little on the others, times a power of two that the element tells.
  template <class Half>
  static std::vector<Half> given(int rank, std::size_t count = odd) {
    std::vector<Half> values;
    for (std::size_t i = 0; i < count; ++i)
      values.emplace_back(std::ldexp(rank == 0 ? 1.0f : small<Half>, static_cast<int>(i % 3)));
    return values;
  }
  template <class Half>
  static std::vector<Half> sums(float one, std::size_t count = odd) {
    std::vector<Half> values;
    for (std::size_t i = 0; i < count; ++i)
      values.emplace_back(std::ldexp(one, static_cast<int>(i % 3)));
    return values;
  }

  static std::vector<std::vector<bfloat16>> all_given() {
    std::vector<std::vector<bfloat16>> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(given<bfloat16>(rank));
    return all;
  }

  ToyGpus gpus{ranks};
  Config config;
};

}  // namespace hymn::test
