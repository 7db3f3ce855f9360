// The bodies of the kernels of GPUs, run by threads of the host, and the image that nvcc has made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/cuda/cast_kernels.hpp"
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

/// Those of `patterns` in a buffer that begins one element beside a pack, through both kernels.
template <class Type>
void check_casts(const std::vector<std::uint16_t>& patterns) {
  const std::size_t count = patterns.size();
  std::vector<std::uint16_t> in(count + 1, 0x3c01);
  std::copy(patterns.begin(), patterns.end(), in.begin() + 1);
  std::vector<float> wide(count, -1);
  std::vector<std::uint16_t> out(count + 2, 0x1234);
  constexpr unsigned blocks = 3;
  for (unsigned block = 0; block < blocks; ++block)
    cuda::widen<Type, false>({.block = block, .blocks = blocks}, in.data() + 1, wide.data(), count,
                             0);
  for (unsigned block = 0; block < blocks; ++block)
    cuda::narrow<cuda::Sum<Type>>({.block = block, .blocks = blocks}, wide.data(), out.data() + 1,
                                  count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    const float expected = Type::widen(patterns[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    // A NaN comes back quiet, all else as it was.
    ASSERT_EQ(out[i + 1], Type::narrow(expected)) << i;
    if (!std::isnan(expected)) {
      ASSERT_EQ(out[i + 1], patterns[i]);
    }
  }
  EXPECT_EQ(out.front(), 0x1234);
  EXPECT_EQ(out.back(), 0x1234) << "it wrote beyond the end";
}

TEST(CastKernels, EveryPatternOfAHalfComesBack) {
  std::vector<std::uint16_t> patterns;
  for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern)
    patterns.push_back(static_cast<std::uint16_t>(pattern));
  check_casts<cuda::Float16>(patterns);
  check_casts<cuda::Bfloat16>(patterns);
}

TEST(CastKernels, AnyNumberOfElements) {
  for (std::size_t count = 0; count <= 40; ++count) {
    std::vector<std::uint16_t> patterns;
    for (std::size_t i = 0; i < count; ++i)
      patterns.push_back(static_cast<std::uint16_t>(0x3c00 + i));
    check_casts<cuda::Float16>(patterns);
    check_casts<cuda::Bfloat16>(patterns);
  }
}

// All that lies at, or beside, the middle between two neighbours.
TEST(CastKernels, NarrowingRoundsToNearestEven) {
  std::vector<float> wide;
  for (std::uint32_t pattern = 0; pattern < 0xffff; ++pattern)
    for (const std::uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u}) {
      const float value = std::bit_cast<float>(pattern << 16 | low);
      wide.push_back(value);
    }
  std::vector<std::uint16_t> out(wide.size());
  cuda::narrow<cuda::Sum<cuda::Bfloat16>>({}, wide.data(), out.data(), wide.size(), 1);
  for (std::size_t i = 0; i < wide.size(); ++i)
    if (!std::isnan(wide[i])) {
      ASSERT_EQ(out[i], reference::Bfloat16Format::narrow(wide[i])) << wide[i];
    }
  cuda::narrow<cuda::Sum<cuda::Float16>>({}, wide.data(), out.data(), wide.size(), 1);
  for (std::size_t i = 0; i < wide.size(); ++i)
    if (!std::isnan(wide[i])) {
      ASSERT_EQ(out[i], reference::Float16Format::narrow(wide[i])) << wide[i];
    }
}

TEST(CastKernels, FactorsAndQuotientsAreRoundedInFloat32) {
  const std::vector<std::uint16_t> in = {0x3f80, 0x3f81, 0xc2f7};  // 1, 1.0078125, -123.5
  std::vector<float> wide(in.size());
  const float factor = 0.3f;
  cuda::widen<cuda::Bfloat16, true>({}, in.data(), wide.data(), in.size(),
                                    std::bit_cast<std::uint32_t>(factor));
  EXPECT_EQ(wide, (std::vector<float>{0.3f, 1.0078125f * 0.3f, -123.5f * 0.3f}));
  std::vector<std::uint16_t> out(in.size());
  const std::vector<float> totals = {3, 1, 10};
  cuda::narrow<cuda::Average<cuda::Bfloat16>>({}, totals.data(), out.data(), 3, 3);
  EXPECT_EQ(out, (std::vector<std::uint16_t>{0x3f80, 0x3eab, 0x4055}));  // 1, 0.333984375, 3.328125
}

/// One part of an image: PTX (1) or machine code (2), and the compute capability it is for.
struct ImagePart {
  std::uint16_t kind;
  std::uint32_t capability;
};

template <class Number>
Number number_at(std::span<const std::byte> image, std::size_t at) {
  Number number;
  std::memcpy(&number, image.subspan(at, sizeof(Number)).data(), sizeof(Number));
  return number;
}

/// As nvcc writes them: a header for the image, and one for each part, which may be compressed.
std::vector<ImagePart> parts_of(std::span<const std::byte> image) {
  std::vector<ImagePart> parts;
  for (std::size_t at = 16; at + 32 <= image.size();) {
    parts.push_back({.kind = number_at<std::uint16_t>(image, at),
                     .capability = number_at<std::uint32_t>(image, at + 28)});
    at += number_at<std::uint32_t>(image, at + 4) + number_at<std::uint64_t>(image, at + 8);
  }
  return parts;
}

/// What nvcc has kept of the machine code for such GPUs, before it was compressed.
std::string kept_code(std::uint32_t capability) {
  const std::string ending = "_" + std::to_string(capability) + ".cubin";
  for (const auto& file : std::filesystem::directory_iterator(HYMN_KERNEL_PARTS)) {
    if (!file.path().string().ends_with(ending)) continue;
    std::ifstream in(file.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  return {};
}

// Any nvcc of CUDA 12 knows of Ampere and Hopper; newer ones of more.
TEST(KernelImage, IsForEveryKindOfGpuThatNvccKnows) {
  const auto image = cuda::kernel_image();
  if (image.empty()) GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
  std::vector<std::uint32_t> machine_code;
  std::vector<std::uint32_t> ptx;
  for (const ImagePart& part : parts_of(image))
    (part.kind == 2 ? machine_code : ptx).push_back(part.capability);
  EXPECT_THAT(machine_code, testing::IsSupersetOf({80u, 90u}));
  EXPECT_THAT(ptx, testing::ElementsAre(testing::Le(machine_code.back())))
      << "for what comes later";
}

TEST(KernelImage, IsCompressed) { EXPECT_LT(cuda::kernel_image().size(), 2u << 20); }

// The driver finds kernels by name, in what is for its GPU.
TEST(KernelImage, HoldsEveryKernelForEveryKindOfGpu) {
  if (!std::filesystem::exists(HYMN_KERNEL_PARTS))
    GTEST_SKIP() << "there are no kernels for GPUs, or they are from elsewhere (HYMN_KERNELS)";
  for (const ImagePart& part : parts_of(cuda::kernel_image())) {
    if (part.kind != 2) continue;
    const std::string code = kept_code(part.capability);
    const auto expect_kernel = [&](const std::string& kernel) {
      EXPECT_NE(code.find(".text." + kernel), std::string::npos) << kernel;
    };
    for (const char* const kernel : {"hymn_find_nan_float16", "hymn_find_nan_bfloat16",
                                     "hymn_find_nan_float32", "hymn_find_nan_float64"})
      expect_kernel(kernel);
#define HYMN_KERNEL_NAME(name, body) #name,
    for (const char* const kernel : {HYMN_WIDEN_KERNELS(HYMN_KERNEL_NAME) HYMN_NARROW_KERNELS(
             HYMN_KERNEL_NAME) HYMN_PEER_KERNELS(HYMN_KERNEL_NAME)})
      expect_kernel(kernel);
  }
}

}  // namespace
}  // namespace hymn::test
