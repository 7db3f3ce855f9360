// One number throughout a buffer of any type, where the type has it.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "collectives/reduce/identity.hpp"
#include "hymn/half.hpp"

namespace hymn::test {
namespace {

template <class Value>
std::vector<Value> filled_with(DataType dtype, double number) {
  std::vector<Value> values(3);
  const bool is_held = fill_number(std::as_writable_bytes(std::span(values)), dtype, number);
  return is_held ? values : std::vector<Value>();
}

template <class Value>
std::vector<Value> thrice(Value value) {
  return {value, value, value};
}

TEST(FillNumber, OfTypesThatHaveIt) {
  EXPECT_EQ(filled_with<std::int8_t>(DataType::int8, -128), thrice<std::int8_t>(-128));
  EXPECT_EQ(filled_with<std::uint8_t>(DataType::uint8, 255), thrice<std::uint8_t>(255));
  EXPECT_EQ(filled_with<std::int32_t>(DataType::int32, -7), thrice(-7));
  EXPECT_EQ(filled_with<std::uint32_t>(DataType::uint32, 4294967295.0), thrice(4294967295U));
  EXPECT_EQ(filled_with<std::int64_t>(DataType::int64, -0x1p63),
            thrice(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(filled_with<std::uint64_t>(DataType::uint64, 0x1p63), thrice(std::uint64_t{1} << 63));
  EXPECT_EQ(filled_with<std::uint8_t>(DataType::boolean, 1), thrice<std::uint8_t>(1));
  EXPECT_EQ(filled_with<float>(DataType::float32, 0.1), thrice(0.1F));
  EXPECT_EQ(filled_with<double>(DataType::float64, 0.1), thrice(0.1));
  EXPECT_EQ(filled_with<float16>(DataType::float16, -1.5), thrice(float16(-1.5F)));
  EXPECT_EQ(filled_with<bfloat16>(DataType::bfloat16, 3), thrice(bfloat16(3.0F)));
  EXPECT_EQ(filled_with<std::complex<float>>(DataType::complex64, 2),
            thrice(std::complex<float>(2)));
  EXPECT_EQ(filled_with<std::complex<double>>(DataType::complex128, -2),
            thrice(std::complex<double>(-2)));
  EXPECT_EQ(filled_with<std::uint8_t>(DataType::float8_e5m2, 0), thrice<std::uint8_t>(0));
}

TEST(FillNumber, OfTypesThatDoNotHaveIt) {
  EXPECT_TRUE(filled_with<std::int8_t>(DataType::int8, 128).empty());
  EXPECT_TRUE(filled_with<std::uint32_t>(DataType::uint32, -1).empty());
  EXPECT_TRUE(filled_with<std::int32_t>(DataType::int32, 0.5).empty());
  EXPECT_TRUE(filled_with<std::int64_t>(DataType::int64, 0x1p63).empty());
  EXPECT_TRUE(filled_with<std::uint64_t>(DataType::uint64, 0x1p64).empty());
  EXPECT_TRUE(filled_with<std::uint64_t>(DataType::uint64, std::nan("")).empty());
  EXPECT_TRUE(filled_with<std::uint8_t>(DataType::boolean, 2).empty());
  EXPECT_TRUE(filled_with<std::uint8_t>(DataType::float8_e4m3fn, 1).empty());
  EXPECT_TRUE(filled_with<std::uint8_t>(DataType::opaque, 0).empty());
}

}  // namespace
}  // namespace hymn::test
