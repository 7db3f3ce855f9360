// Names and sizes of the public vocabulary.
#include "hymn/types.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <set>
#include <string>

#include "hymn/request.hpp"

namespace hymn {
namespace {

TEST(Types, SizesAreThoseOfTheElements) {
  EXPECT_EQ(size_of(data_type_of<bool>), sizeof(bool));
  EXPECT_EQ(size_of(data_type_of<std::int8_t>), 1u);
  EXPECT_EQ(size_of(data_type_of<std::uint8_t>), 1u);
  EXPECT_EQ(size_of(data_type_of<std::byte>), 1u);
  EXPECT_EQ(size_of(data_type_of<std::int32_t>), 4u);
  EXPECT_EQ(size_of(data_type_of<std::uint32_t>), 4u);
  EXPECT_EQ(size_of(data_type_of<std::int64_t>), 8u);
  EXPECT_EQ(size_of(data_type_of<std::uint64_t>), 8u);
  EXPECT_EQ(size_of(data_type_of<float16>), sizeof(float16));
  EXPECT_EQ(size_of(data_type_of<bfloat16>), sizeof(bfloat16));
  EXPECT_EQ(size_of(data_type_of<float>), sizeof(float));
  EXPECT_EQ(size_of(data_type_of<double>), sizeof(double));
  EXPECT_EQ(size_of(data_type_of<std::complex<float>>), sizeof(std::complex<float>));
  EXPECT_EQ(size_of(data_type_of<std::complex<double>>), sizeof(std::complex<double>));
  EXPECT_EQ(size_of(data_type_of<float8_e4m3fn>), sizeof(float8_e4m3fn));
  EXPECT_EQ(size_of(data_type_of<float8_e5m2>), sizeof(float8_e5m2));
  EXPECT_EQ(size_of(DataType::opaque), 0u);
}

template <class Enum>
void expect_distinct_names(std::size_t count) {
  std::set<std::string_view> names;
  for (std::size_t value = 0; value < count; ++value) names.insert(to_string(Enum(value)));
  EXPECT_EQ(names.size(), count);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(to_string(Enum(count)), "unknown");
}

TEST(Types, EveryValueHasItsOwnName) {
  expect_distinct_names<DataType>(data_type_count);
  expect_distinct_names<ReduceKind>(reduce_kind_count);
  expect_distinct_names<MemoryKind>(4);
  expect_distinct_names<OpType>(op_type_count);
  expect_distinct_names<Reproducibility>(reproducibility_count);
}

TEST(Types, NamesAreThoseOfTheEnumerators) {
  EXPECT_EQ(to_string(DataType::boolean), "boolean");
  EXPECT_EQ(to_string(DataType::bfloat16), "bfloat16");
  EXPECT_EQ(to_string(DataType::float8_e5m2), "float8_e5m2");
  EXPECT_EQ(to_string(DataType::opaque), "opaque");
  EXPECT_EQ(to_string(ReduceKind::bxor), "bxor");
  EXPECT_EQ(to_string(ReduceKind::premul_sum), "premul_sum");
  EXPECT_EQ(to_string(MemoryKind::managed), "managed");
  EXPECT_EQ(to_string(OpType::all_to_all), "all_to_all");
  EXPECT_EQ(to_string(OpType::batch), "batch");
  EXPECT_EQ(to_string(Reproducibility::ranks), "ranks");
  EXPECT_EQ(to_string(Reproducibility::size), "size");
}

}  // namespace
}  // namespace hymn
