// Sums at Reproducibility::size: correctly rounded, whatever the order, the number of ranks that
// the values are spread over, the places of the result and the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collectives/reduce/exact_sum.hpp"
#include "collectives/reduce/kernel_table.hpp"
#include "hymn/error.hpp"
#include "tests/unit/exact_reference.hpp"
#include "tests/unit/reduce_reference.hpp"
#include "tests/unit/reduce_scene.hpp"
#include "tests/unit/reduce_targets.hpp"

namespace hymn {
namespace {

using reference::Binary;
using reference::OddArray;
using reference::Random;

template <class BitsOf, int fraction_bits_of, DataType dtype_of>
struct Format : Binary<BitsOf, fraction_bits_of> {
  using Bits = BitsOf;
  static constexpr int fraction_bits = fraction_bits_of;
  static constexpr DataType dtype = dtype_of;
};

template <class F>
class ExactSums : public testing::Test {};
using Formats = testing::Types<
    Format<std::uint32_t, 23, DataType::float32>, Format<std::uint64_t, 52, DataType::float64>,
    Format<std::uint16_t, 10, DataType::float16>, Format<std::uint16_t, 7, DataType::bfloat16>>;
TYPED_TEST_SUITE(ExactSums, Formats);

/// What a column of summands looks like.
enum class Kind { alike, tie, wide, cancelling, huge, tiny };
constexpr Kind kinds[] = {Kind::alike,      Kind::tie,  Kind::wide,
                          Kind::cancelling, Kind::huge, Kind::tiny};

/// A finite number with an exponent from a range of the format's (as a share of all exponents).
template <class F>
typename F::Bits number(Random& random, double from, double to) {
  using Bits = typename F::Bits;
  constexpr int last = (1 << F::exponent_bits) - 2;
  const auto at = [](double share) { return static_cast<int>(share * last); };
  const int exponent = std::uniform_int_distribution<int>(at(from), at(to))(random);
  const auto fraction = random() & ((std::uint64_t{1} << F::fraction_bits) - 1);
  const auto magnitude = static_cast<std::uint64_t>(exponent) << F::fraction_bits | fraction;
  return static_cast<Bits>(magnitude | (random() % 2 == 0 ? F::sign : 0u));
}

template <class F>
std::vector<typename F::Bits> column(Random& random, Kind kind, std::size_t ranks) {
  using Bits = typename F::Bits;
  std::vector<Bits> values;
  const auto one = static_cast<Bits>(F::infinity / 2 & ~((Bits{1} << F::fraction_bits) - 1));
  for (std::size_t i = 0; i < ranks; ++i) {
    Bits value = number<F>(random, 0.45, 0.55);
    if (kind == Kind::wide) value = number<F>(random, 0, 1);
    if (kind == Kind::huge) value = number<F>(random, 0.97, 1);
    if (kind == Kind::tiny) value = number<F>(random, 0, 0.03);
    if (kind == Kind::tie) {
      // A number near one, halves of its last place, and sometimes a grain that decides.
      const auto half_place =
          static_cast<Bits>(one - (Bits(F::fraction_bits + 1) << F::fraction_bits));
      value = i == 0 ? static_cast<Bits>(one | (random() & 3)) : half_place;
      if (i > 1 && random() % 2 == 0)
        value = random() % 2 == 0 ? Bits{1} : static_cast<Bits>(F::sign | 1);
    }
    if (kind == Kind::cancelling) {
      value = number<F>(random, 0.1, 0.9);
      if (i % 2 == 1 && random() % 8 != 0) value = static_cast<Bits>(values.back() ^ F::sign);
    }
    values.push_back(value);
  }
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

/// Sums columns, one for each element, through reduce_all.
template <class F>
std::vector<typename F::Bits> sum(const Reducer& reducer,
                                  const std::vector<std::vector<typename F::Bits>>& columns) {
  using Bits = typename F::Bits;
  const std::size_t ranks = columns.front().size();
  std::vector<OddArray<Bits>> inputs(ranks, OddArray<Bits>(columns.size()));
  std::vector<const void*> pointers;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < columns.size(); ++i) inputs[rank].set(i, columns[i][rank]);
    pointers.push_back(inputs[rank].data());
  }
  OddArray<Bits> output(columns.size());
  reduce_all(reducer, pointers.data(), static_cast<int>(ranks), output.data(), columns.size());
  EXPECT_TRUE(output.is_whole());
  std::vector<Bits> results;
  for (std::size_t i = 0; i < columns.size(); ++i) results.push_back(output.get(i));
  return results;
}

template <class F>
std::vector<std::vector<typename F::Bits>> columns_of(Random& random, std::size_t ranks,
                                                      std::size_t count) {
  std::vector<std::vector<typename F::Bits>> columns;
  for (std::size_t i = 0; i < count; ++i)
    columns.push_back(column<F>(random, kinds[random() % std::size(kinds)], ranks));
  return columns;
}

TYPED_TEST(ExactSums, AreRoundedCorrectly) {
  for (const TargetKernels& target : all_target_kernels()) {
    const Reducer reducer =
        detail::make_reducer(target.table, TypeParam::dtype, ReduceOp::sum, Reproducibility::size);
    Random random(1);
    for (const std::size_t ranks : {1u, 2u, 3u, 4u, 7u, 40u}) {
      const auto columns = columns_of<TypeParam>(random, ranks, 101);
      const auto results = sum<TypeParam>(reducer, columns);
      for (std::size_t i = 0; i < columns.size(); ++i)
        ASSERT_TRUE(TypeParam::is_rounded_sum(results[i], columns[i]))
            << target.name << ", " << ranks << " ranks, element " << i << ": bits " << results[i]
            << " from " << testing::PrintToString(columns[i]);
    }
  }
}

TYPED_TEST(ExactSums, DoNotDependOnWhichRankHoldsWhat) {
  using Bits = typename TypeParam::Bits;
  const Reducer reducer = reducer_for(TypeParam::dtype, ReduceOp::sum, Reproducibility::size);
  Random random(2);
  for (int round = 0; round < 30; ++round) {
    auto columns = columns_of<TypeParam>(random, 5, 61);
    const auto expected = sum<TypeParam>(reducer, columns);
    for (auto& values : columns) std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(sum<TypeParam>(reducer, columns), expected) << "permuted";
    // More ranks, that have nothing to add, at any place.
    for (auto& values : columns)
      for (int more = 0; more < 4; ++more)
        values.insert(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()),
                      Bits{0});
    EXPECT_EQ(sum<TypeParam>(reducer, columns), expected) << "over nine ranks";
  }
}

TYPED_TEST(ExactSums, OfFewerRanksThatHoldTheSame) {
  // Pairs of values whose sums are exact may be added before, by the ranks that hold both.
  using F = TypeParam;
  using Bits = typename F::Bits;
  const Reducer reducer = reducer_for(F::dtype, ReduceOp::sum, Reproducibility::size);
  Random random(3);
  std::vector<std::vector<Bits>> apart;
  std::vector<std::vector<Bits>> together;
  for (int i = 0; i < 500; ++i) {
    std::vector<Bits> many;
    std::vector<Bits> few;
    for (int pair = 0; pair < 3; ++pair) {
      // Twice a value is the next exponent.
      const Bits value = number<F>(random, 0.2, 0.8);
      many.insert(many.end(), {value, value});
      few.push_back(static_cast<Bits>(value + (Bits{1} << F::fraction_bits)));
    }
    apart.push_back(many);
    together.push_back(few);
  }
  EXPECT_EQ(sum<F>(reducer, apart), sum<F>(reducer, together));
}

TYPED_TEST(ExactSums, OfZerosInfinitiesAndNans) {
  using F = TypeParam;
  using Bits = typename F::Bits;
  const Bits zero = 0;
  const Bits negative_zero = F::sign;
  const Bits least = 1;
  const Bits inf = F::infinity;
  const auto negative = [](Bits bits) { return static_cast<Bits>(bits | F::sign); };
  const auto nan = static_cast<Bits>(inf | (Bits{1} << (F::fraction_bits - 1)));
  const std::vector<std::vector<Bits>> columns = {
      {negative_zero, negative_zero, negative_zero},
      {negative_zero, zero, negative_zero},
      {least, negative(least), negative_zero},
      {inf, least, inf},
      {least, negative(inf), least},
      {inf, least, negative(inf)},
      {least, nan, inf},
      {negative(nan), zero, zero},
      {static_cast<Bits>(inf - 1), static_cast<Bits>(inf - 1),
       negative(static_cast<Bits>(inf - 1))},
      {static_cast<Bits>(inf - 1), static_cast<Bits>(inf - 1), least},
  };
  const std::vector<Bits> expected = {negative_zero,
                                      zero,
                                      zero,
                                      inf,
                                      negative(inf),
                                      nan,
                                      nan,
                                      nan,
                                      static_cast<Bits>(inf - 1),
                                      inf};
  for (const TargetKernels& target : all_target_kernels()) {
    const Reducer reducer =
        detail::make_reducer(target.table, F::dtype, ReduceOp::sum, Reproducibility::size);
    // By themselves, and in the middle of a vector.
    for (const std::size_t others : {0u, 3u, 64u}) {
      std::vector<std::vector<Bits>> all(others, std::vector<Bits>(3, least));
      all.insert(all.end(), columns.begin(), columns.end());
      all.resize(all.size() + others, std::vector<Bits>(3, least));
      auto results = sum<F>(reducer, all);
      results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(others));
      results.resize(columns.size());
      EXPECT_EQ(results, expected) << target.name;
    }
  }
}

TYPED_TEST(ExactSums, DoNotDependOnThePlacesOfTheResult) {
  using Bits = typename TypeParam::Bits;
  const Reducer reducer = reducer_for(TypeParam::dtype, ReduceOp::sum, Reproducibility::size);
  Random random(4);
  constexpr std::size_t count = 5003;
  const auto columns = columns_of<TypeParam>(random, 3, count);
  const auto expected = sum<TypeParam>(reducer, columns);
  for (const int in_place : {-1, 0, 2})
    for (const bool stream : {false, true}) {
      std::vector<std::vector<Bits>> inputs(3, std::vector<Bits>(count));
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t rank = 0; rank < 3; ++rank) inputs[rank][i] = columns[i][rank];
      const void* const pointers[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
      std::vector<Bits> apart(count);
      std::vector<Bits>& output = in_place < 0 ? apart : inputs[static_cast<std::size_t>(in_place)];
      reduce_all(reducer, pointers, 3, output.data(), count, nullptr,
                 {.copy = inputs[1].data(), .stream = stream});
      EXPECT_EQ(output, expected);
      EXPECT_EQ(inputs[1], expected);
    }
}

TEST(ExactAverages, AreTheRoundedSumDivided) {
  const Reducer reducer = reducer_for(DataType::float32, ReduceOp::avg, Reproducibility::size);
  const float values[] = {1e30f, 1.0f, -1e30f};
  const void* const inputs[] = {&values[0], &values[1], &values[2]};
  float result = 0;
  reduce_all(reducer, inputs, 3, &result, 1);
  EXPECT_EQ(result, 1.0f / 3.0f);
}

TEST(ExactPremulSums, SumTheRoundedProducts) {
  const Reducer reducer =
      reducer_for(DataType::float64, ReduceOp::premul_sum(0.1), Reproducibility::size);
  const double values[] = {1e30, 3, 7, 1e30};
  const double factors[] = {0.1, 0.3, 0.7, -0.1};
  const void* const inputs[] = {&values[0], &values[1], &values[2], &values[3]};
  double result = 0;
  reduce_all(reducer, inputs, 4, &result, 1, factors);
  EXPECT_EQ(result, 0.3 * 3 + 0.7 * 7);
}

TEST(ExactPremulSums, OfManyRanks) {
  // More than fit into the rooms on the stack.
  constexpr int ranks = 1001;
  const Reducer reducer =
      reducer_for(DataType::bfloat16, ReduceOp::premul_sum(2), Reproducibility::size);
  std::vector<bfloat16> ones(200, bfloat16(1.0f));
  const std::vector<const void*> inputs(ranks, ones.data());
  std::vector<bfloat16> results(ones.size());
  reduce_all(reducer, inputs.data(), ranks, results.data(), results.size());
  EXPECT_EQ(results, std::vector<bfloat16>(ones.size(), bfloat16(2.0f * ranks)));
}

TEST(ExactComplexSums, AreThoseOfTheParts) {
  using Complex = std::complex<double>;
  const Reducer reducer = reducer_for(DataType::complex128, ReduceOp::sum, Reproducibility::size);
  std::vector<Complex> values[] = {std::vector<Complex>(9, {1e300, 1}),
                                   std::vector<Complex>(9, {3, 1e300}),
                                   std::vector<Complex>(9, {-1e300, -1e300})};
  const void* const inputs[] = {values[0].data(), values[1].data(), values[2].data()};
  reduce_all(reducer, inputs, 3, values[2].data(), 9);
  EXPECT_EQ(values[2], std::vector<Complex>(9, {3, 1}));
}

TEST(ExactSum, HoldsTheGreatestAndTheLeastOfManySummands) {
  constexpr double greatest = std::numeric_limits<double>::max();
  constexpr double least = std::numeric_limits<double>::denorm_min();
  detail::ExactSum sum;
  for (int i = 0; i < 100000; ++i) sum.add(greatest);
  sum.add(-least);
  EXPECT_EQ(sum.round<double>(detail::Rounding::nearest), std::numeric_limits<double>::infinity());
  for (int i = 0; i < 100000; ++i) sum.add(-greatest);
  EXPECT_EQ(sum.round<double>(detail::Rounding::nearest), -least);
  EXPECT_EQ(sum.round<float>(detail::Rounding::nearest), -0.0f);
  EXPECT_EQ(sum.round<float>(detail::Rounding::odd), -std::numeric_limits<float>::denorm_min());
}

TEST(ExactLevel, RefusesProductsWhereTheOrderMattersAndNothingElse) {
  for (std::size_t type = 0; type < data_type_count; ++type)
    for (std::size_t index = 0; index < reduce_kind_count; ++index) {
      const auto dtype = static_cast<DataType>(type);
      const auto kind = static_cast<ReduceKind>(index);
      if (is_custom(kind) || !refusal(dtype, kind).empty()) continue;
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::string(to_string(kind)));
      for (const auto level : {Reproducibility::runs, Reproducibility::placement})
        EXPECT_EQ(refusal(dtype, kind, level), "");
      if (kind == ReduceKind::product && order_matters(dtype, kind)) {
        EXPECT_NE(refusal(dtype, kind, Reproducibility::size).find("order of its factors"),
                  std::string::npos);
        EXPECT_THROW(reducer_for(dtype, ReduceOp::product, Reproducibility::size),
                     UnsupportedError);
        continue;
      }
      const Reducer reducer = reducer_for(dtype, ReduceOp::of(kind), Reproducibility::size);
      EXPECT_EQ(reducer.exact != nullptr, order_matters(dtype, kind));
      EXPECT_EQ(reducer_for(dtype, ReduceOp::of(kind), Reproducibility::placement).exact, nullptr);
    }
}

TEST(ExactLevel, TheOrderMattersWhereStepsRound) {
  EXPECT_TRUE(order_matters(DataType::float32, ReduceKind::sum));
  EXPECT_TRUE(order_matters(DataType::bfloat16, ReduceKind::avg));
  EXPECT_TRUE(order_matters(DataType::complex64, ReduceKind::product));
  EXPECT_TRUE(order_matters(DataType::float64, ReduceKind::premul_sum));
  EXPECT_TRUE(order_matters(DataType::opaque, ReduceKind::opaque));
  EXPECT_FALSE(order_matters(DataType::float32, ReduceKind::min));
  EXPECT_FALSE(order_matters(DataType::int8, ReduceKind::sum));
  EXPECT_FALSE(order_matters(DataType::uint64, ReduceKind::avg));
  EXPECT_FALSE(order_matters(DataType::boolean, ReduceKind::product));
}

}  // namespace
}  // namespace hymn
