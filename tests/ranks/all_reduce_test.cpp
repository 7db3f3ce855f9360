// all_reduce: every cell of docs/dtypes.md, bit for bit and alike on all ranks.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

void check_all_reduce(ProcessGroup& group, int rank, DataType dtype, ReduceKind kind,
                      std::size_t count) {
  SCOPED_TRACE(cell_name(dtype, kind) + " x " + std::to_string(count));
  const Buffer expected = reduction_result(dtype, kind, ranks_of(group), count);
  Buffer in = reduction_input(dtype, kind, rank, count);
  const Buffer before = in;
  Buffer out(dtype, count);
  group.all_reduce(in, out, op_of(kind, dtype, rank));
  expect_equal(expected, out);
  expect_equal(before, in);
  EXPECT_TRUE(out.guards_intact());
  group.all_reduce(in, op_of(kind, dtype, rank));
  expect_equal(expected, in);
  EXPECT_TRUE(in.guards_intact());
  expect_same_everywhere(group, in);
}

RANK_TEST(AllReduce, EveryDtypeAndOperation) {
  for (const DataType dtype : all_dtypes())
    for (const ReduceKind kind : all_kinds())
      if (is_defined(dtype, kind))
        for (const std::size_t count : {std::size_t{1}, std::size_t{65}, std::size_t{1000}})
          check_all_reduce(world.group(), world.rank(), dtype, kind, count);
}

RANK_TEST(AllReduce, EveryCount) {
  const std::array cells = {std::pair(DataType::float32, ReduceKind::sum),
                            std::pair(DataType::int8, ReduceKind::sum),
                            std::pair(DataType::bfloat16, ReduceKind::avg),
                            std::pair(DataType::float64, ReduceKind::max),
                            std::pair(DataType::int64, ReduceKind::avg),
                            std::pair(DataType::boolean, ReduceKind::bxor),
                            std::pair(DataType::complex128, ReduceKind::premul_sum)};
  for (const auto& [dtype, kind] : cells)
    for (const std::size_t count : every_count)
      check_all_reduce(world.group(), world.rank(), dtype, kind, count);
}

RANK_TEST(AllReduce, test_all_reduce) {
  const auto ranks = static_cast<float>(world.size());
  std::vector<float> ones(9, static_cast<float>(world.rank()));
  world.group().all_reduce(ones);
  EXPECT_EQ(ones, std::vector<float>(9, (ranks - 1) * ranks / 2));
}

RANK_TEST(AllReduce, test_all_reduce_ops) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(world.size()));
  std::iota(numbers.begin(), numbers.end(), 1);
  const auto check = [&](ReduceOp op, auto fold) {
    std::int64_t value = world.rank() + 1;
    world.group().all_reduce(view_of(value), op);
    EXPECT_EQ(value, std::accumulate(numbers.begin() + 1, numbers.end(), numbers[0], fold))
        << to_string(op.kind());
  };
  using I = std::int64_t;
  check(ReduceOp::product, [](I a, I b) { return a * b; });
  check(ReduceOp::min, [](I a, I b) { return std::min(a, b); });
  check(ReduceOp::max, [](I a, I b) { return std::max(a, b); });
  check(ReduceOp::band, [](I a, I b) { return a & b; });
  check(ReduceOp::bor, [](I a, I b) { return a | b; });
  check(ReduceOp::bxor, [](I a, I b) { return a ^ b; });
  check(ReduceOp::land, [](I, I) { return 1; });
  check(ReduceOp::lor, [](I, I) { return 1; });
}

RANK_TEST(AllReduce, EightBitSumsWrap) {
  // 100 from every rank: beyond 127 from two ranks on, beyond 255 from three.
  for (const std::size_t count : byte_counts) {
    std::vector<std::int8_t> with_sign(count, 100);
    std::vector<std::int8_t> negative(count, -100);
    std::vector<std::uint8_t> without(count, 100);
    world.group().all_reduce(with_sign);
    world.group().all_reduce(negative);
    world.group().all_reduce(without);
    const int sum = 100 * world.size();
    EXPECT_EQ(with_sign, std::vector(count, static_cast<std::int8_t>(sum))) << count;
    EXPECT_EQ(negative, std::vector(count, static_cast<std::int8_t>(-sum))) << count;
    EXPECT_EQ(without, std::vector(count, static_cast<std::uint8_t>(sum))) << count;
  }
}

RANK_TEST(AllReduce, WideIntegersWrap) {
  std::vector<std::int32_t> narrow(17, std::numeric_limits<std::int32_t>::max());
  std::vector<std::uint64_t> wide(17, std::numeric_limits<std::uint64_t>::max());
  world.group().all_reduce(narrow);
  world.group().all_reduce(wide, ReduceOp::product);
  const auto ranks = static_cast<std::uint32_t>(world.size());
  EXPECT_EQ(narrow, std::vector(17, static_cast<std::int32_t>(ranks * 0x7fffffffu)));
  // (-1) to the power of the number of ranks.
  EXPECT_EQ(wide, std::vector(17, ranks % 2 == 0 ? std::uint64_t{1} : ~std::uint64_t{0}));
}

// What MPICH 4.0.2 itself takes for negative.
template <class T>
void check_order_of_large(World& world) {
  constexpr T greatest = std::numeric_limits<T>::max();
  const T own = static_cast<T>(greatest - static_cast<T>(world.rank()));
  std::vector<T> least = {own, world.rank() == 0 ? greatest : T{1}};
  std::vector<T> most = least;
  world.group().all_reduce(least, ReduceOp::min);
  world.group().all_reduce(most, ReduceOp::max);
  const T last = static_cast<T>(greatest - static_cast<T>(world.size() - 1));
  EXPECT_EQ(least, (std::vector<T>{last, world.size() == 1 ? greatest : T{1}}));
  EXPECT_EQ(most, (std::vector<T>(2, greatest)));
}

RANK_TEST(AllReduce, UnsignedIntegersAreComparedAsSuch) {
  check_order_of_large<std::uint8_t>(world);
  check_order_of_large<std::uint16_t>(world);
  check_order_of_large<std::uint32_t>(world);
  check_order_of_large<std::uint64_t>(world);
}

RANK_TEST(AllReduce, IntegerAveragesAreExactAndRoundTowardZero) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> extremes = {most, least, -7, 7, world.rank() == 0 ? -1 : 0};
  std::vector<std::uint64_t> all_ones = {std::numeric_limits<std::uint64_t>::max()};
  std::vector<std::int8_t> bytes = {-128, 127,
                                    static_cast<std::int8_t>(world.rank() == 0 ? -5 : 0)};
  world.group().all_reduce(extremes, ReduceOp::avg);
  world.group().all_reduce(all_ones, ReduceOp::avg);
  world.group().all_reduce(bytes, ReduceOp::avg);
  const std::int64_t minus_one = world.size() == 1 ? -1 : 0;
  EXPECT_EQ(extremes, (std::vector<std::int64_t>{most, least, -7, 7, minus_one}));
  EXPECT_EQ(all_ones[0], std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(bytes,
            (std::vector<std::int8_t>{-128, 127, static_cast<std::int8_t>(-5 / world.size())}));
}

RANK_TEST(AllReduce, SmallFloatsAccumulateInFloat32) {
  std::vector<float16> halves(33, float16(32768.0f));
  world.group().all_reduce(halves, ReduceOp::avg);
  EXPECT_EQ(halves, std::vector(33, float16(32768.0f)));
  world.group().all_reduce(halves, ReduceOp::sum);
  // 65536 and more do not fit.
  const auto sum = world.size() == 1 ? 32768.0f : std::numeric_limits<float>::infinity();
  EXPECT_EQ(halves, std::vector(33, float16(sum)));
}

RANK_TEST(AllReduce, BrainFloatsAreNarrowedOnce) {
  NEEDS_RANKS(3);
  // 256 + 1 would round to 256 if anybody narrowed on the way.
  const int last = world.size() - 1;
  const float mine = world.rank() == 0 ? 256.0f : world.rank() == 1 ? 1.0f : 0.0f;
  std::vector<bfloat16> brains(33, bfloat16(world.rank() == last ? -256.0f : mine));
  world.group().all_reduce(brains);
  EXPECT_EQ(brains, std::vector(33, bfloat16(1.0f)));
}

template <class T, class Bits>
void check_min_max_specials(World& world, T nan_in, Bits canonical) {
  SCOPED_TRACE(to_string(data_type_of<T>));
  const bool last = world.rank() == world.size() - 1;
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    // A NaN on one rank; a NaN on all; zeros of both signs.
    std::vector<T> values(19, T(last ? 1.0f : 2.0f));
    values[3] = last ? nan_in : T(5.0f);
    values[17] = nan_in;
    values[18] = T(world.rank() == 0 ? -0.0f : 0.0f);
    world.group().all_reduce(values, op);
    EXPECT_EQ(std::bit_cast<Bits>(values[3]), canonical) << to_string(op.kind());
    EXPECT_EQ(std::bit_cast<Bits>(values[17]), canonical) << to_string(op.kind());
    const bool negative = op.kind() == ReduceKind::min || world.size() == 1;
    EXPECT_EQ(std::bit_cast<Bits>(values[18]), std::bit_cast<Bits>(T(negative ? -0.0f : 0.0f)));
    const bool one = world.size() == 1 || op.kind() == ReduceKind::min;
    EXPECT_EQ(values[0], T(one ? 1.0f : 2.0f));
    expect_same_everywhere(world.group(), values);
  }
}

RANK_TEST(AllReduce, MinMaxTakeNaNsAndSignedZeros) {
  // NaNs that are negative, with a payload; the answer is the one canonical quiet NaN.
  check_min_max_specials(world, std::bit_cast<float>(0xffc12345u), 0x7fc00000u);
  check_min_max_specials(world, std::bit_cast<double>(0xfff8000000012345ull),
                         0x7ff8000000000000ull);
  check_min_max_specials(world, std::bit_cast<float16>(std::uint16_t{0xfe01}),
                         std::uint16_t{0x7e00});
  check_min_max_specials(world, std::bit_cast<bfloat16>(std::uint16_t{0xffc1}),
                         std::uint16_t{0x7fc0});
}

RANK_TEST(AllReduce, SumsKeepNaNsAndInfinities) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {world.rank() == 0 ? std::nanf("") : 1.0f,
                               world.rank() == 0 ? infinity : 1.0f, -infinity};
  world.group().all_reduce(values);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], infinity);
  EXPECT_EQ(values[2], -infinity);
}

RANK_TEST(AllReduce, FloatSumsHaveTheSameBitsEverywhere) {
  // Values whose sum depends on the order of the additions.
  std::vector<float> values(4099);
  std::vector<double> wide(4099);
  for (std::size_t i = 0; i < values.size(); ++i) {
    wide[i] = std::pow(-1.7, static_cast<int>(i % 40)) / (world.rank() + 1.1);
    values[i] = static_cast<float>(wide[i]);
  }
  world.group().all_reduce(values);
  world.group().all_reduce(wide);
  expect_same_everywhere(world.group(), values);
  expect_same_everywhere(world.group(), wide);
}

RANK_TEST(AllReduce, PremulFactorMustFitTheType) {
  // A good factor before and after: what was found out for one must not be taken for the other.
  std::vector<std::int32_t> value = {1, 2, 3};
  world.group().all_reduce(value, ReduceOp::premul_sum(2));
  for (const double factor : {0.5, 4294967296.0, std::nan("")})
    expect_error(ErrorKind::usage,
                 [&] { world.group().all_reduce(value, ReduceOp::premul_sum(factor)); },
                 {"factor"});
  expect_refused(world.group(), ErrorKind::usage, "all_reduce",
                 [&] { world.group().all_reduce(value, ReduceOp::premul_sum(2.5)); }, {"2.5"});
  world.group().all_reduce(value, ReduceOp::premul_sum(-1));
  const int sum = -2 * world.size() * world.size();
  EXPECT_EQ(value, (std::vector{sum, 2 * sum, 3 * sum}));
}

RANK_TEST(AllReduce, RefusedCells) {
  ProcessGroup& group = world.group();
  for (const DataType dtype : all_dtypes())
    for (const ReduceKind kind : all_kinds()) {
      if (is_defined(dtype, kind)) continue;
      SCOPED_TRACE(cell_name(dtype, kind));
      const auto blocks = static_cast<std::size_t>(group.size());
      Buffer one(dtype, 4);
      const Buffer all = filled(dtype, 4 * blocks, world.rank());
      const ReduceOp op = ReduceOp::of(kind);
      const auto refused = [&](const std::function<void()>& call) {
        expect_error(ErrorKind::unsupported, call, {to_string(dtype)});
      };
      refused([&] { group.all_reduce(one, op); });
      refused([&] { group.all_reduce(all.view().slice(0, 4), one, op); });
      refused([&] { group.reduce(one, 0, op); });
      refused([&] { group.reduce_scatter(all, one, op); });
      refused([&] { (void)group.all_reduce_async(one, op); });
      expect_untouched(one);
    }
  expect_refused(group, ErrorKind::unsupported, "all_reduce",
                 [&] {
                   Buffer eighth(DataType::float8_e5m2, 4);
                   group.all_reduce(eighth);
                 },
                 {"float8_e5m2", "float32"});
}

RANK_TEST(AllReduce, TakesDenseLayoutsAsTheyLie) {
  // 2x3x4x5, channels last: dense, but not in the order of its dimensions.
  const std::array<std::int64_t, 4> shape = {2, 3, 4, 5};
  const std::array<std::int64_t, 4> channels_last = {60, 1, 15, 3};
  Buffer data = reduction_input(DataType::float32, ReduceKind::sum, world.rank(), 120);
  BufferView view = data;
  view.shape = shape;
  view.strides = channels_last;
  world.group().all_reduce(view);
  const auto& ranks = ranks_of(world.group());
  expect_equal(reduction_result(DataType::float32, ReduceKind::sum, ranks, 120), data);

  const std::array<std::int64_t, 4> with_gaps = {120, 2, 30, 6};
  const std::array<std::int64_t, 4> overlapping = {60, 0, 15, 3};
  for (const auto& strides : {with_gaps, overlapping}) {
    view.strides = strides;
    expect_refused(world.group(), ErrorKind::usage, "all_reduce",
                   [&] { world.group().all_reduce(view); }, {"layout"});
  }
}

RANK_TEST(AllReduce, ShapeMustAgreeWithCount) {
  const std::array<std::int64_t, 2> shape = {3, 5};
  Buffer data(DataType::float32, 16);
  BufferView view = data;
  view.shape = shape;
  expect_refused(world.group(), ErrorKind::usage, "all_reduce",
                 [&] { world.group().all_reduce(view); });
}

}  // namespace
}  // namespace hymn::test
