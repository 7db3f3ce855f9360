// The search for a NaN, with the kernels of every instruction set, against arithmetic.
#include "collectives/reduce/find_nan.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/unit/reduce_reference.hpp"
#include "tests/unit/reduce_targets.hpp"

namespace hymn {
namespace {

std::vector<detail::NanKernels> all_nan_kernels() {
  std::vector<detail::NanKernels> all;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    all.push_back(detail::make_nan_kernels());
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return all;
}

/// The pattern alone, and at the end of others that are no NaN, so that vectors see it.
template <class Bits>
void expect_told(const detail::NanKernels& kernels, Bits pattern, DataType dtype, bool is_nan) {
  std::vector<Bits> values(67, Bits{0});
  values.back() = pattern;
  ASSERT_EQ(detail::find_nan_with(kernels, values.data(), values.size(), dtype),
            is_nan ? values.size() - 1 : values.size())
      << to_string(dtype) << " " << pattern;
  ASSERT_EQ(detail::find_nan_with(kernels, &pattern, 1, dtype), is_nan ? 0u : 1u)
      << to_string(dtype) << " " << pattern;
}

TEST(FindNan, EveryPatternOfAHalf) {
  for (const detail::NanKernels& kernels : all_nan_kernels()) {
    for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
      const auto half = static_cast<std::uint16_t>(pattern);
      expect_told(kernels, half, DataType::float16,
                  std::isnan(reference::Float16Format::widen(half)));
      expect_told(kernels, half, DataType::bfloat16,
                  std::isnan(reference::Bfloat16Format::widen(half)));
    }
  }
}

/// Numbers, infinities and NaNs, both quiet and signalling, at the edges of each range.
template <class Float, class Bits>
std::vector<Bits> edges() {
  using Limits = std::numeric_limits<Float>;
  const auto bits = [](Float value) { return std::bit_cast<Bits>(value); };
  const Bits infinity = bits(Limits::infinity());
  const Bits sign = bits(Float{-0.0});
  std::vector<Bits> all = {0,
                           1,
                           bits(Limits::min()),
                           bits(Limits::max()),
                           static_cast<Bits>(infinity - 1),
                           infinity,
                           static_cast<Bits>(infinity + 1),
                           bits(Limits::quiet_NaN()),
                           bits(Limits::signaling_NaN()),
                           static_cast<Bits>(sign - 1)};
  const std::size_t positive = all.size();
  for (std::size_t i = 0; i < positive; ++i) all.push_back(all[i] | sign);
  return all;
}

TEST(FindNan, EdgesOfFloats) {
  for (const detail::NanKernels& kernels : all_nan_kernels()) {
    for (const std::uint32_t bits : edges<float, std::uint32_t>())
      expect_told(kernels, bits, DataType::float32, std::isnan(std::bit_cast<float>(bits)));
    for (const std::uint64_t bits : edges<double, std::uint64_t>())
      expect_told(kernels, bits, DataType::float64, std::isnan(std::bit_cast<double>(bits)));
  }
}

/// Bytes of ones with `nan` as element `at`, at any alignment.
template <class Float>
std::vector<std::byte> placed(std::size_t count, std::size_t offset, std::size_t at, Float nan) {
  std::vector<std::byte> bytes(offset + count * sizeof(Float));
  for (std::size_t i = 0; i < count; ++i) {
    const Float value = i == at ? nan : Float{1};
    std::memcpy(bytes.data() + offset + i * sizeof(Float), &value, sizeof(Float));
  }
  return bytes;
}

template <class Float>
void check_places(const detail::NanKernels& kernels, DataType dtype) {
  const Float nan = std::numeric_limits<Float>::quiet_NaN();
  // Around the ends of vectors and of the blocks that are looked at in one go.
  for (const std::size_t count : {1, 2, 31, 64, 65, 1023, 1024, 1025, 2047, 2048, 2500}) {
    for (const std::size_t offset : {0, 1, 3}) {
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        const auto bytes = placed<Float>(count, offset, at, nan);
        EXPECT_EQ(detail::find_nan_with(kernels, bytes.data() + offset, count, dtype), at)
            << count << " " << offset;
        // Right behind the end it is nobody's business.
        EXPECT_EQ(detail::find_nan_with(kernels, bytes.data() + offset, at, dtype), at);
      }
    }
  }
}

TEST(FindNan, AnyLengthAndAlignment) {
  for (const detail::NanKernels& kernels : all_nan_kernels()) {
    check_places<float>(kernels, DataType::float32);
    check_places<double>(kernels, DataType::float64);
  }
}

TEST(FindNan, TheFirstOfSeveral) {
  std::vector<double> values(5000, 1.0);
  values[4000] = values[3001] = values[3000] = std::nan("");
  EXPECT_EQ(find_nan(values.data(), values.size(), DataType::float64), 3000u);
}

TEST(FindNan, EitherPartOfAComplexNumber) {
  std::vector<std::complex<float>> values(9);
  EXPECT_EQ(find_nan(values.data(), 9, DataType::complex64), 9u);
  values[7] = {0.0f, std::nanf("")};
  EXPECT_EQ(find_nan(values.data(), 9, DataType::complex64), 7u);
  values[5] = {std::nanf(""), 0.0f};
  EXPECT_EQ(find_nan(values.data(), 9, DataType::complex64), 5u);
  std::vector<std::complex<double>> wide(3);
  wide[2] = {0.0, std::nan("")};
  EXPECT_EQ(find_nan(wide.data(), 3, DataType::complex128), 2u);
}

TEST(FindNan, OtherTypesHoldNone) {
  const std::vector<std::uint32_t> ones(16, ~0u);
  for (const DataType dtype : {DataType::boolean, DataType::int8, DataType::uint32, DataType::int64,
                               DataType::float8_e4m3fn, DataType::float8_e5m2}) {
    EXPECT_FALSE(may_hold_nan(dtype)) << to_string(dtype);
    EXPECT_EQ(find_nan(ones.data(), 4, dtype), 4u) << to_string(dtype);
  }
  EXPECT_EQ(find_nan(nullptr, 0, DataType::float32), 0u);
}

}  // namespace
}  // namespace hymn
