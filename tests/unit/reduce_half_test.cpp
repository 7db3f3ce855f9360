// The conversions of float16 and bfloat16: hymn/half.hpp and the kernels of every instruction set,
// bit for bit against arithmetic on the definition of the formats.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "collectives/reduce/kernel_table.hpp"
#include "tests/unit/reduce_reference.hpp"
#include "tests/unit/reduce_targets.hpp"

namespace hymn {
namespace {

struct Float16 {
  using Format = reference::Float16Format;
  static constexpr DataType dtype = DataType::float16;
  static constexpr std::uint16_t infinity = 0x7c00;
  static float widen(std::uint16_t half) { return detail::widen_float16(half); }
  static std::uint16_t narrow(float value) { return detail::narrow_float16(value); }
};

struct Bfloat16 {
  using Format = reference::Bfloat16Format;
  static constexpr DataType dtype = DataType::bfloat16;
  static constexpr std::uint16_t infinity = 0x7f80;
  static float widen(std::uint16_t half) { return detail::widen_bfloat16(half); }
  static std::uint16_t narrow(float value) { return detail::narrow_bfloat16(value); }
};

template <class Half>
class HalfConversion : public testing::Test {};
using Halves = testing::Types<Float16, Bfloat16>;
TYPED_TEST_SUITE(HalfConversion, Halves);

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(0x10000);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  return halves;
}

TYPED_TEST(HalfConversion, EveryPatternWidensExactly) {
  const std::vector<std::uint16_t> halves = all_halves();
  for (const std::uint16_t half : halves)
    ASSERT_EQ(bits_of(TypeParam::widen(half)), bits_of(TypeParam::Format::widen(half))) << half;
  for (const TargetKernels& target : all_target_kernels()) {
    // Different remainders after whole vectors, and every pattern at several places of one.
    for (std::size_t skip = 0; skip <= 70; skip += 7) {
      const std::size_t count = halves.size() - skip;
      std::vector<float> wide(count);
      target.table.conversion(TypeParam::dtype).load(wide.data(), halves.data() + skip, count, 1.0);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(bits_of(wide[i]), bits_of(TypeParam::widen(halves[i + skip])))
            << target.name << ' ' << i + skip;
    }
  }
}

/// The values of all halves, all midpoints between neighbours, and what lies just beside them.
template <class Half>
std::vector<float> delicate_floats() {
  std::vector<float> values;
  for (std::uint32_t magnitude = 0; magnitude <= Half::infinity; ++magnitude) {
    const auto half = static_cast<std::uint16_t>(magnitude);
    const float value = Half::Format::widen(half);
    values.push_back(value);
    // Past the greatest half lies the number that would come next, were there one more exponent.
    const float next = half + 1 < Half::infinity ? Half::Format::widen(half + 1)
                       : half < Half::infinity   ? 2 * value - Half::Format::widen(half - 1)
                                                 : value;
    const float midpoint = value + (next - value) / 2;
    for (const float center : {value, midpoint})
      for (const float toward : {-INFINITY, INFINITY})
        values.push_back(std::nextafter(center, toward));
    values.push_back(midpoint);
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

/// Every exponent with both signs and many fractions, NaNs, infinities and subnormals among them.
std::vector<float> floats_of_every_size() {
  std::vector<float> values;
  reference::Random random(16);
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent) {
    const std::uint32_t base = sign_and_exponent << 23;
    for (const std::uint32_t fraction : {0u, 1u, 0x400000u, 0x3fffffu, 0x7fffffu})
      values.push_back(std::bit_cast<float>(base | fraction));
    for (int i = 0; i < 2000; ++i)
      values.push_back(std::bit_cast<float>(base | static_cast<std::uint32_t>(random() >> 41)));
  }
  return values;
}

template <class Half>
void check_narrowing(const std::vector<float>& values) {
  std::vector<std::uint16_t> expected;
  for (const float value : values) {
    expected.push_back(Half::Format::narrow(value));
    ASSERT_EQ(Half::narrow(value), expected.back()) << bits_of(value);
  }
  for (const TargetKernels& target : all_target_kernels()) {
    std::vector<std::uint16_t> halves(values.size());
    target.table.conversion(Half::dtype).store(halves.data(), values.data(), values.size(), 1);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(halves[i], expected[i]) << target.name << ' ' << bits_of(values[i]);
    // One at a time goes through the loop of the remainder.
    for (std::size_t i = 0; i < values.size(); i += 13) {
      std::uint16_t half = 0;
      target.table.conversion(Half::dtype).store(&half, &values[i], 1, 1);
      ASSERT_EQ(half, expected[i]) << target.name << ' ' << bits_of(values[i]);
    }
  }
}

TYPED_TEST(HalfConversion, NarrowsToNearestEvenAtEveryStep) {
  check_narrowing<TypeParam>(delicate_floats<TypeParam>());
}

TYPED_TEST(HalfConversion, NarrowsFloatsOfEverySize) {
  check_narrowing<TypeParam>(floats_of_every_size());
}

TYPED_TEST(HalfConversion, AverageDividesInFloat32AndNarrowsOnce) {
  const std::vector<float> sums = floats_of_every_size();
  std::vector<std::uint16_t> halves(sums.size());
  for (const TargetKernels& target : all_target_kernels())
    for (int ranks = 1; ranks <= 9; ++ranks) {
      target.table.conversion(TypeParam::dtype)
          .store_average(halves.data(), sums.data(), sums.size(), ranks);
      for (std::size_t i = 0; i < sums.size(); i += 101) {
        const float average = sums[i] / static_cast<float>(ranks);
        ASSERT_EQ(halves[i], TypeParam::Format::narrow(average))
            << target.name << ' ' << sums[i] << " / " << ranks;
      }
    }
}

}  // namespace
}  // namespace hymn
