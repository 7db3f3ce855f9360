// Values of any type, and reductions of the program's own: over every road there is.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

constexpr OpType all_reductions[] = {OpType::all_reduce, OpType::reduce, OpType::reduce_scatter,
                                     OpType::scan, OpType::exscan};

/// A row of digits, written one behind the other: what is joined in another order is another.
/// `bytes`: of each.
template <std::size_t bytes>
struct Word {
  std::uint64_t digits = 0;
  std::array<unsigned char, bytes - sizeof(std::uint64_t)> rest{};

  friend bool operator==(const Word&, const Word&) = default;
};

template <std::size_t bytes>
Word<bytes> join(const Word<bytes>& lower, const Word<bytes>& higher) {
  Word<bytes> joined;
  std::uint64_t tens = 10;
  for (std::uint64_t more = higher.digits / 10; more != 0; more /= 10) tens *= 10;
  joined.digits = lower.digits * tens + higher.digits;
  for (std::size_t i = 0; i < joined.rest.size(); ++i)
    joined.rest[i] = static_cast<unsigned char>(lower.rest[i] + higher.rest[i]);
  return joined;
}

template <std::size_t bytes>
Word<bytes> word(int member, std::size_t index) {
  Word<bytes> made{.digits = static_cast<std::uint64_t>(member % 9 + 1)};
  for (std::size_t i = 0; i < made.rest.size(); ++i)
    made.rest[i] = static_cast<unsigned char>(static_cast<std::size_t>(member) + index + i);
  return made;
}

/// Of the first so many members.
template <std::size_t bytes>
Word<bytes> joined(int members, std::size_t index) {
  Word<bytes> all = word<bytes>(0, index);
  for (int member = 1; member < members; ++member) all = join(all, word<bytes>(member, index));
  return all;
}

template <std::size_t bytes>
struct Joined {
  Word<bytes> operator()(const Word<bytes>& a, const Word<bytes>& b) const { return join(a, b); }
};

/// False: the group's road does not take it.
template <std::size_t bytes>
bool check(ProcessGroup& group, OpType type, std::size_t count) {
  using Values = std::vector<Word<bytes>>;
  const ReduceOp op = reduce_by<Word<bytes>>(Joined<bytes>());
  const int rank = group.rank();
  const auto size = static_cast<std::size_t>(group.size());
  const int root = group.global_rank(group.size() - 1);
  const bool scatters = type == OpType::reduce_scatter;
  Values input(scatters ? count * size : count);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = word<bytes>(rank, i);
  Values output(count);
  const Values untouched = output;
  Request request = Request::all_reduce(values_of(std::as_const(input)), values_of(output), op);
  if (type == OpType::reduce)
    request = Request::reduce(values_of(std::as_const(input)), values_of(output), root, op);
  if (scatters)
    request = Request::reduce_scatter(InputBlocks::equal(values_of(std::as_const(input))),
                                      values_of(output), op);
  if (type == OpType::scan)
    request = Request::scan(values_of(std::as_const(input)), values_of(output), op);
  if (type == OpType::exscan)
    request = Request::exscan(values_of(std::as_const(input)), values_of(output), op);
  if (group.explain(request).algorithm.empty()) return false;
  const int members = is_prefix(type) ? rank + (type == OpType::scan ? 1 : 0) : group.size();
  const bool is_taken = type != OpType::reduce || rank == group.size() - 1;
  const bool has_result = members > 0 && is_taken;
  Values expected = untouched;
  for (std::size_t i = 0; has_result && i < count; ++i)
    expected[i] = joined<bytes>(members, scatters ? static_cast<std::size_t>(rank) * count + i : i);
  group.run(request);
  if (is_taken) {
    EXPECT_EQ(output, expected);
  }
  std::ranges::fill(output, Word<bytes>{});
  group.start(request).wait();
  if (is_taken) {
    EXPECT_EQ(output, expected);
  }
  return true;
}

/// Of roads for values of every size; the others are for those that fit into slots.
bool takes_every_size(const Road& road, int ranks) {
  if (road.path == "mpi") return ranks > 1;
  return road.path == "threads" || road.algorithm.ends_with("_pairwise");
}

/// 16 bytes fit slots in shared memory, 24 do not; 9001 are more than any block of a kernel.
RANK_TEST(Values, AreReducedInRankOrderOnEveryRoad) {
  for (const OpType type : all_reductions)
    for (const Road& road : roads_of(world.group(), type)) {
      SCOPED_TRACE(to_string(type));
      SCOPED_TRACE(to_string(road));
      ProcessGroup group = world.new_group(everybody(world), forced(road));
      for (const std::size_t count : {0u, 1u, 100u, 5000u}) {
        check<16>(group, type, count);
        EXPECT_EQ(check<24>(group, type, count), takes_every_size(road, world.size()));
      }
      check<9001>(group, type, 7);
      world.group().barrier();
      group.destroy();
    }
}

RANK_TEST(Values, SomeRoadTakesEverySize) {
  for (const OpType type : all_reductions) {
    EXPECT_TRUE(check<16>(world.group(), type, 3));
    EXPECT_TRUE(check<24>(world.group(), type, 3));
    EXPECT_TRUE(check<9001>(world.group(), type, 3));
  }
}

template <std::size_t bytes>
void check_moves(ProcessGroup& group) {
  using Values = std::vector<Word<bytes>>;
  const auto size = static_cast<std::size_t>(group.size());
  const int rank = group.rank();
  constexpr std::size_t many = std::max<std::size_t>(70, 16800 / bytes);
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, many}) {
    Values own(count);
    for (std::size_t i = 0; i < count; ++i) own[i] = word<bytes>(rank, i);
    Values expected;
    for (int member = 0; member < group.size(); ++member)
      for (std::size_t i = 0; i < count; ++i) expected.push_back(word<bytes>(member, i));
    Values all(count * size);
    group.all_gather(values_of(own), values_of(all));
    EXPECT_EQ(all, expected);
    Values told = own;
    group.broadcast(values_of(told), group.global_rank(0));
    EXPECT_EQ(told[count - 1], word<bytes>(0, count - 1));
    Values part(count);
    group.scatter(values_of(all), values_of(part), group.global_rank(0));
    EXPECT_EQ(part, own);
    Values back(count * size);
    group.all_to_all(values_of(all), values_of(back));
    for (int member = 0; member < group.size(); ++member)
      EXPECT_EQ(back[static_cast<std::size_t>(member) * count], word<bytes>(rank, 0));
    Values gathered(count * size);
    group.gather(values_of(own), values_of(gathered), group.global_rank(0));
    if (rank == 0) {
      EXPECT_EQ(gathered, expected);
    }
  }
}

RANK_TEST(Values, AreMoved) {
  check_moves<16>(world.group());
  check_moves<24>(world.group());
  check_moves<9001>(world.group());
}

RANK_TEST(Values, AreSent) {
  NEEDS_RANKS(2);
  if (world.rank() == 0) {
    const std::vector<Word<24>> sent(5, word<24>(3, 1));
    world.group().send(values_of(sent), 1);
  } else if (world.rank() == 1) {
    std::vector<Word<24>> got(8);
    EXPECT_EQ(world.group().recv(values_of(got), 0).count, 5u);
    EXPECT_EQ(got[4], word<24>(3, 1));
    EXPECT_EQ(got[5], Word<24>{});
  }
  world.group().barrier();
}

/// Numbers, too, and a function with a state.
RANK_TEST(Values, NumbersAreReducedByFunctions) {
  std::vector<double> values(50, world.rank() + 1.0);
  const auto hypot = [](double a, double b) { return std::sqrt(a * a + b * b); };
  world.group().all_reduce(values, reduce_by<double>(hypot, CombineOrder::any));
  double squares = 0;
  for (int rank = 1; rank <= world.size(); ++rank) squares += static_cast<double>(rank) * rank;
  EXPECT_THAT(values, testing::Each(testing::DoubleNear(std::sqrt(squares), 1e-9)));
  std::int32_t modulus = 7;
  const CustomReduction times{
      .function =
          [](void* inout, const void* in, std::size_t count, void* context) {
            const std::int32_t of = *static_cast<const std::int32_t*>(context);
            for (std::size_t i = 0; i < count; ++i) {
              std::int32_t a = 0;
              std::int32_t b = 0;
              std::memcpy(&a, static_cast<std::byte*>(inout) + i * sizeof a, sizeof a);
              std::memcpy(&b, static_cast<const std::byte*>(in) + i * sizeof b, sizeof b);
              a = a * b % of;
              std::memcpy(static_cast<std::byte*>(inout) + i * sizeof a, &a, sizeof a);
            }
          },
      .context = &modulus,
      .element_bytes = sizeof(std::int32_t),
      .commutative = true};
  std::int32_t product = 3;
  world.group().all_reduce(product, ReduceOp::custom(times));
  std::int32_t expected = 3;
  for (int rank = 1; rank < world.size(); ++rank) expected = expected * 3 % modulus;
  EXPECT_EQ(product, expected);
  world.group().barrier();  // its state is in use until all have their results
}

RANK_TEST(Values, LeastAndGreatestAreLocated) {
  const int rank = world.rank();
  const int size = world.size();
  // From the ends on, so that each is there twice but for the middle.
  std::vector<Located<double>> values(3);
  values[0] = {static_cast<double>(std::min(rank, size - 1 - rank)), rank};
  values[1] = {rank == size / 2 ? std::numeric_limits<double>::quiet_NaN() : 1.0 * rank, rank};
  values[2] = {rank % 2 == 0 ? 0.0 : -0.0, 100 - rank};
  std::vector<Located<double>> least = values;
  world.group().all_reduce(values_of(least), minloc<double>);
  EXPECT_EQ(least[0], (Located<double>{0, 0}));
  EXPECT_TRUE(std::isnan(least[1].value));
  EXPECT_EQ(least[1].index, size / 2);
  EXPECT_EQ(least[2], (Located<double>{0, 101 - size}));
  std::vector<Located<double>> greatest = values;
  world.group().all_reduce(values_of(greatest), maxloc<double>);
  EXPECT_EQ(greatest[0], (Located<double>{static_cast<double>((size - 1) / 2), (size - 1) / 2}));
  EXPECT_EQ(greatest[1].index, size / 2);
  Located<std::int32_t, std::int32_t> own{-rank, rank};
  world.group().all_reduce(value_of(own), minloc<std::int32_t, std::int32_t>);
  EXPECT_EQ(own, (Located<std::int32_t, std::int32_t>{1 - size, size - 1}));
}

/// 'placement' holds wherever all inputs are seen in rank order; 'size' cannot be promised.
RANK_TEST(Values, ReproducibilityOfCustomReductions) {
  std::vector<Word<16>> own(3, word<16>(world.rank(), 0));
  const ReduceOp op = reduce_by<Word<16>>(Joined<16>());
  ProcessGroup placed =
      world.new_group(everybody(world), {.reproducibility = Reproducibility::placement});
  std::vector<Word<16>> out(3);
  placed.all_reduce(values_of(std::as_const(own)), values_of(out), op);
  EXPECT_EQ(out[2], joined<16>(world.size(), 0));
  ProcessGroup exact =
      world.new_group(everybody(world), {.reproducibility = Reproducibility::size});
  expect_error(ErrorKind::unsupported, [&] { exact.all_reduce(values_of(own), op); },
               {"custom reduction", "'placement' or less"});
  world.group().barrier();
}

RANK_TEST(Values, FaultsAreFoundBeforeAnythingIsSent) {
  ProcessGroup& group = world.group();
  std::vector<Word<24>> own(2);
  std::vector<Word<16>> other(2);
  const ReduceOp op = reduce_by<Word<16>>(Joined<16>());
  expect_error(ErrorKind::usage, [&] { group.all_reduce(values_of(own), op); },
               {"of values of 16 bytes", "24"});
  expect_error(ErrorKind::unsupported, [&] { group.all_reduce(values_of(own)); },
               {"only a custom reduction"});
  expect_error(ErrorKind::usage,
               [&] { group.all_reduce(values_of(std::as_const(own)), values_of(other), op); },
               {"24 and of 16 bytes"});
  const CustomReduction none{.element_bytes = 16};
  expect_error(ErrorKind::usage,
               [&] { group.all_reduce(values_of(other), ReduceOp::custom(none)); },
               {"has no function"});
  group.barrier();
}

}  // namespace
}  // namespace hymn::test
