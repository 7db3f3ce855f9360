// The factor of premul_sum: which ones an element type takes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "collectives/reduce/reducer.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

struct Limits {
  DataType dtype;
  double lowest;
  double highest;  ///< the greatest whole number that it holds and that is a double
};

const Limits limits[] = {
    {DataType::int8, -128, 127},
    {DataType::uint8, 0, 255},
    {DataType::int32, -0x1p31, 0x1p31 - 1},
    {DataType::uint32, 0, 0x1p32 - 1},
    {DataType::int64, -0x1p63, 0x1p63 - 0x1p10},
    {DataType::uint64, 0, 0x1p64 - 0x1p11},
};

void expect_refused(DataType dtype, double factor, const std::string& quoted) {
  try {
    reducer_for(dtype, ReduceOp::premul_sum(factor));
    FAIL() << to_string(dtype) << " takes " << factor;
  } catch (const UsageError& error) {
    EXPECT_NE(error.problem().find("factor " + quoted + " "), std::string::npos) << error.problem();
    EXPECT_NE(error.problem().find(to_string(dtype)), std::string::npos) << error.problem();
  }
}

TEST(PremulSum, IntegersTakeWholeFactorsThatTheyHold) {
  for (const Limits& limit : limits) {
    for (const double factor : {limit.lowest, limit.highest, 0.0, -0.0, 1.0})
      EXPECT_EQ(reducer_for(limit.dtype, ReduceOp::premul_sum(factor)).factor, factor);
    EXPECT_THROW(reducer_for(limit.dtype, ReduceOp::premul_sum(limit.lowest * 1.5 - 1)),
                 UsageError);
    const double above = std::exp2(std::ceil(std::log2(limit.highest)));
    EXPECT_THROW(reducer_for(limit.dtype, ReduceOp::premul_sum(above)), UsageError);
    EXPECT_THROW(reducer_for(limit.dtype, ReduceOp::premul_sum(std::nextafter(1.0, 2.0))),
                 UsageError);
  }
}

TEST(PremulSum, TheRefusedFactorIsQuoted) {
  expect_refused(DataType::int8, 128, "128");
  expect_refused(DataType::int8, -129, "-129");
  expect_refused(DataType::uint8, -1, "-1");
  expect_refused(DataType::int32, 0.5, "0.5");
  expect_refused(DataType::int64, 0x1p63, "9.223372036854776e+18");
  expect_refused(DataType::uint64, std::numeric_limits<double>::quiet_NaN(), "nan");
  expect_refused(DataType::uint32, std::numeric_limits<double>::infinity(), "inf");
}

TEST(PremulSum, FloatingPointTakesEveryFactor) {
  for (const DataType dtype : {DataType::float16, DataType::bfloat16, DataType::float32,
                               DataType::float64, DataType::complex64, DataType::complex128})
    for (const double factor : {0.1, -1e300, std::numeric_limits<double>::infinity()})
      EXPECT_EQ(reducer_for(dtype, ReduceOp::premul_sum(factor)).factor, factor);
}

TEST(PremulSum, FactorIsRoundedToTheTypeThatIsMultiplied) {
  // 0.1 as float32, times 3 in float32: not what float64 arithmetic would give.
  const float three = 3;
  float result = 0;
  const void* input = &three;
  reduce_all(reducer_for(DataType::float32, ReduceOp::premul_sum(0.1)), &input, 1, &result, 1);
  EXPECT_EQ(result, 0.1f * 3.0f);
}

}  // namespace
}  // namespace hymn
