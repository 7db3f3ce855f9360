// reduce_all beyond the table: blocks, in place, order of ranks, NaN of a single rank, factors that
// differ.
#include <gtest/gtest.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "collectives/reduce/reducer.hpp"
#include "tests/unit/reduce_reference.hpp"

namespace hymn {
namespace {

// Several blocks of every type, and no whole number of them.
constexpr std::size_t several_blocks = 20011;

template <class T>
std::vector<std::vector<T>> make_inputs(std::size_t ranks, std::size_t count) {
  std::vector<std::vector<T>> inputs(ranks, std::vector<T>(count));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i)
      inputs[rank][i] = static_cast<T>((rank + 1) * 3 + i * 7 % 23);
  return inputs;
}

template <class T>
std::vector<const void*> pointers(const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> all;
  all.reserve(inputs.size());
  for (const std::vector<T>& input : inputs) all.push_back(input.data());
  return all;
}

template <class T>
class ReduceAll : public testing::Test {};
using Elements = testing::Types<std::uint8_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(ReduceAll, Elements);

TYPED_TEST(ReduceAll, IntoAnyOfItsInputs) {
  for (const ReduceOp& op :
       {ReduceOp::sum, ReduceOp::max, ReduceOp::avg, ReduceOp::premul_sum(2)}) {
    const Reducer reducer = reducer_for(data_type_of<TypeParam>, op);
    for (const std::size_t ranks : {1u, 2u, 3u, 4u}) {
      auto inputs = make_inputs<TypeParam>(ranks, several_blocks);
      std::vector<TypeParam> apart(several_blocks);
      reduce_all(reducer, pointers(inputs).data(), static_cast<int>(ranks), apart.data(),
                 several_blocks);
      for (std::size_t target = 0; target < ranks; ++target) {
        auto again = inputs;
        reduce_all(reducer, pointers(again).data(), static_cast<int>(ranks), again[target].data(),
                   several_blocks);
        EXPECT_EQ(again[target], apart) << "into input " << target << " of " << ranks;
        for (std::size_t rank = 0; rank < ranks; ++rank)
          EXPECT_TRUE(rank == target || again[rank] == inputs[rank]) << "input was written";
      }
    }
  }
}

TYPED_TEST(ReduceAll, OneBufferAsSeveralInputsAndAsTheOutput) {
  auto inputs = make_inputs<TypeParam>(1, several_blocks);
  std::vector<TypeParam>& buffer = inputs.front();
  std::vector<TypeParam> expected = buffer;
  for (TypeParam& value : expected) value = static_cast<TypeParam>(3 * value);
  const void* const same[] = {buffer.data(), buffer.data(), buffer.data()};
  reduce_all(reducer_for(data_type_of<TypeParam>, ReduceOp::sum), same, 3, buffer.data(),
             several_blocks);
  EXPECT_EQ(buffer, expected);
}

TEST(ReduceAllOrder, FoldsInRankOrder) {
  // Only ((1e30 + -1e30) + 1) is 1; every other order loses the 1.
  const float values[] = {1e30f, -1e30f, 1.0f};
  const void* const in_order[] = {&values[0], &values[1], &values[2]};
  const void* const reversed[] = {&values[2], &values[1], &values[0]};
  const Reducer reducer = reducer_for(DataType::float32, ReduceOp::sum);
  float result = 0;
  reduce_all(reducer, in_order, 3, &result, 1);
  EXPECT_EQ(result, 1.0f);
  reduce_all(reducer, reversed, 3, &result, 1);
  EXPECT_EQ(result, 0.0f);
}

template <class Bits>
void expect_canonical_nan(DataType dtype, Bits nan, Bits canonical) {
  for (const ReduceOp& op : {ReduceOp::min, ReduceOp::max}) {
    const void* const inputs[] = {&nan};
    Bits result = 0;
    reduce_all(reducer_for(dtype, op), inputs, 1, &result, 1);
    EXPECT_EQ(result, canonical) << to_string(dtype);
  }
}

TEST(ReduceAllNan, MinAndMaxOfOneRankGiveTheCanonicalNan) {
  expect_canonical_nan<std::uint32_t>(DataType::float32, 0xff800001u, 0x7fc00000u);
  expect_canonical_nan<std::uint64_t>(DataType::float64, 0xfff123456789abcdull,
                                      0x7ff8000000000000ull);
  expect_canonical_nan<std::uint16_t>(DataType::float16, 0xfc01, 0x7e00);
  expect_canonical_nan<std::uint16_t>(DataType::bfloat16, 0xff81, 0x7fc0);
}

#if defined(__SSE2__)
/// The processor mode that an application built with -ffast-math runs in.
class FlushSubnormals {
 public:
  FlushSubnormals() { _mm_setcsr(before_ | 0x8040u); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned before_ = _mm_getcsr();
};

TEST(ReduceAllSubnormals, MinAndMaxKeepThemWhereArithmeticFlushesThem) {
  const std::array<std::uint32_t, 2> left = {1, 0x80000003u};
  const std::array<std::uint32_t, 2> right = {2, 0x80000001u};
  const void* const inputs[] = {left.data(), right.data()};
  std::array<std::uint32_t, 2> least{};
  std::array<std::uint32_t, 2> greatest{};
  {
    const FlushSubnormals mode;
    reduce_all(reducer_for(DataType::float32, ReduceOp::min), inputs, 2, least.data(), 2);
    reduce_all(reducer_for(DataType::float32, ReduceOp::max), inputs, 2, greatest.data(), 2);
  }
  EXPECT_EQ(least, (std::array<std::uint32_t, 2>{1, 0x80000003u}));
  EXPECT_EQ(greatest, (std::array<std::uint32_t, 2>{2, 0x80000001u}));
}
#endif

template <class T>
void expect_scaled_sum(std::array<T, 3> values, std::array<double, 3> factors, T expected) {
  const Reducer reducer = reducer_for(data_type_of<T>, ReduceOp::premul_sum(7));
  const void* const inputs[] = {&values[0], &values[1], &values[2]};
  for (T* const output : {&values[2], &values[0]}) {
    reduce_all(reducer, inputs, 3, output, 1, factors.data());
    EXPECT_EQ(*output, expected) << to_string(data_type_of<T>);
    values[2] = T(4);
  }
}

TEST(ReduceAllFactors, EachRankHasItsOwn) {
  expect_scaled_sum<std::int8_t>({1, 2, 4}, {3, -1, 2}, 3 - 2 + 8);
  expect_scaled_sum<float>({1, 2, 4}, {0.5, -1, 2}, 0.5f - 2 + 8);
  expect_scaled_sum<float16>({float16(1), float16(2), float16(4)}, {0.5, -1, 2}, float16(6.5f));
}

TEST(ReduceLoadInPlace, SameSizeMayBeTheSameArray) {
  std::vector<float> values(1001, 1.5f);
  Reducer reducer = reducer_for(DataType::float32, ReduceOp::premul_sum(3.0));
  reducer.load(values.data(), values.data(), values.size(), reducer.factor);
  EXPECT_EQ(values, std::vector<float>(1001, 4.5f));
  reducer = reducer_for(DataType::float32, ReduceOp::avg);
  reducer.store(values.data(), values.data(), values.size(), 3);
  EXPECT_EQ(values, std::vector<float>(1001, 1.5f));
  std::vector<std::uint8_t> flags(1001, 0x80);
  reducer = reducer_for(DataType::boolean, ReduceOp::bxor);
  reducer.load(flags.data(), flags.data(), flags.size(), 1.0);
  EXPECT_EQ(flags, std::vector<std::uint8_t>(1001, 1));
}

}  // namespace
}  // namespace hymn
