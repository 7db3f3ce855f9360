// The bodies of the kernels of GPUs, run by threads of the host, and the image that nvcc has made.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/cuda/find_nan_kernel.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_kernels.hpp"
#include "tests/unit/reduce_reference.hpp"

namespace hymn::test {
namespace {

constexpr std::uint64_t nothing = ~std::uint64_t{0};

/// What so many blocks find, one after the other.
template <class Bits, Bits infinity>
std::uint64_t found_in(const std::vector<Bits>& elements, unsigned blocks = 1) {
  std::uint64_t found = nothing;
  for (unsigned block = 0; block < blocks; ++block)
    cuda::find_nan<Bits, infinity>({.block = block, .blocks = blocks}, elements.data(),
                                   elements.size(), &found);
  return found;
}

TEST(FindNanKernel, EveryPatternOfAHalf) {
  for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
    const auto half = static_cast<std::uint16_t>(pattern);
    const std::vector<std::uint16_t> values = {0, half};
    ASSERT_EQ((found_in<std::uint16_t, 0x7c00>(values)) == 1,
              std::isnan(reference::Float16Format::widen(half)))
        << pattern;
    ASSERT_EQ((found_in<std::uint16_t, 0x7f80>(values)) == 1,
              std::isnan(reference::Bfloat16Format::widen(half)))
        << pattern;
  }
}

TEST(FindNanKernel, NoInfinityIsOne) {
  const std::uint32_t infinity = 0x7f800000;
  const std::vector<std::uint32_t> singles = {infinity, 0x80000000 | infinity, infinity - 1,
                                              infinity + 1};
  EXPECT_EQ((found_in<std::uint32_t, infinity>(singles)), 3u);
  const std::uint64_t wide = 0x7ff0000000000000;
  const std::vector<std::uint64_t> doubles = {wide, std::uint64_t{1} << 63 | wide, wide - 1,
                                              ~std::uint64_t{0}};
  EXPECT_EQ((found_in<std::uint64_t, wide>(doubles)), 3u);
  EXPECT_EQ((found_in<std::uint64_t, wide>({})), nothing);
}

TEST(FindNanKernel, BlocksAtTheSameTimeFindTheFirst) {
  constexpr std::uint32_t infinity = 0x7f800000;
  for (const std::size_t first : {0, 1, 500, 998, 999}) {
    std::vector<std::uint32_t> values(1000, 0);
    for (std::size_t i = first; i < values.size(); i += 3) values[i] = infinity + 7;
    std::uint64_t found = nothing;
    std::vector<std::thread> blocks;
    for (unsigned block = 0; block < 4; ++block)
      blocks.emplace_back([&, block] {
        cuda::find_nan<std::uint32_t, infinity>({.block = block, .blocks = 4}, values.data(),
                                                values.size(), &found);
      });
    for (std::thread& block : blocks) block.join();
    EXPECT_EQ(found, first);
  }
}

// The driver finds kernels by name, in what is for its GPU.
TEST(KernelImage, HoldsEveryKernelForEveryKindOfGpu) {
  const auto image = cuda::kernel_image();
  if (image.empty()) GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
  const std::string_view bytes(reinterpret_cast<const char*>(image.data()), image.size());
  for (const char* const kernel : {"hymn_find_nan_float16", "hymn_find_nan_bfloat16",
                                   "hymn_find_nan_float32", "hymn_find_nan_float64"})
    EXPECT_NE(bytes.find(std::string(".text.") + kernel), std::string_view::npos) << kernel;
#define HYMN_KERNEL_NAME(name, body) #name,
  for (const char* const kernel : {HYMN_PEER_KERNELS(HYMN_KERNEL_NAME)})
    EXPECT_NE(bytes.find(std::string(".text.") + kernel), std::string_view::npos) << kernel;
  for (const char* const target : {".target sm_100", ".entry hymn_find_nan_float32"})
    EXPECT_NE(bytes.find(target), std::string_view::npos) << target;
  std::size_t machine_codes = 0;
  for (std::size_t at = bytes.find("\177ELF"); at != std::string_view::npos;
       at = bytes.find("\177ELF", at + 1))
    ++machine_codes;
  EXPECT_EQ(machine_codes, 3u) << "for compute capability 8.0, 9.0 and 10.0";
}

}  // namespace
}  // namespace hymn::test
