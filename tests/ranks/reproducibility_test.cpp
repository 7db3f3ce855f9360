// What each level of Reproducibility promises, kept by every algorithm that promises it, and
// refused by those that do not. The algorithms are those that `explain` lists, so that one that is
// added is tested, too; the reference is the same whatever the ranks are, so it holds between
// programs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

__extension__ using Int128 = __int128;

/// Bits that look random, the same wherever they are asked for.
std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t bits = a * 0x9e3779b97f4a7c15ull + b * 0xbf58476d1ce4e5b9ull + 1;
  for (int round = 0; round < 2; ++round) bits = (bits ^ bits >> 31) * 0x94d049bb133111ebull;
  return bits ^ bits >> 31;
}

/// What a type is computed in.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

/// Numbers that differ so much in size that nearly every step of a sum rounds.
template <class T>
T number(int rank, std::size_t index) {
  const std::uint64_t bits = hash(static_cast<std::uint64_t>(rank), index);
  const int spread = sizeof(T) == 2 ? 6 : 30;
  const int exponent = static_cast<int>(bits >> 40) % (2 * spread) - spread;
  const double fraction = 1 + static_cast<double>(bits % (1u << 30)) * 0x1p-30;
  const double value = std::ldexp((bits >> 39 & 1) != 0 ? -fraction : fraction, exponent);
  return static_cast<T>(static_cast<float>(value));
}

ReduceOp op_for(ReduceKind kind, int rank) {
  return kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(1.0 / (rank + 3))
                                        : ReduceOp::of(kind);
}

/// What docs/reproducibility.md says of `placement`: a fold in rank order.
template <class T>
T folded(ReduceKind kind, int ranks, std::size_t index) {
  using Accumulator = Wide<T>;
  Accumulator result{};
  for (int rank = 0; rank < ranks; ++rank) {
    auto value = static_cast<Accumulator>(number<T>(rank, index));
    if (kind == ReduceKind::premul_sum)
      value = value * static_cast<Accumulator>(op_for(kind, rank).factor());
    if (rank == 0)
      result = value;
    else if (kind == ReduceKind::product)
      result = result * value;
    else
      result = result + value;
  }
  if (kind == ReduceKind::avg) result = result / static_cast<Accumulator>(ranks);
  return static_cast<T>(result);
}

template <class T>
std::vector<T> numbers(int rank, std::size_t first, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = number<T>(rank, first + i);
  return values;
}

template <class T>
void expect_bits(const std::vector<T>& actual, const std::vector<T>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      ADD_FAILURE() << "element " << i << " is "
                    << static_cast<double>(static_cast<Wide<T>>(actual[i])) << ", not "
                    << static_cast<double>(static_cast<Wide<T>>(expected[i]));
      return;
    }
}

template <class T>
std::vector<T> expected_fold(ReduceKind kind, int ranks, std::size_t first, std::size_t count) {
  std::vector<T> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = folded<T>(kind, ranks, first + i);
  return expected;
}

/// The reduction of numbers() as pieces of uneven length; empty where this rank gets no result.
template <class T>
std::vector<T> reduced(ProcessGroup& group, OpType type, ReduceKind kind, std::size_t count,
                       std::size_t pieces) {
  const int root = group.size() - 1;
  const ReduceOp op = op_for(kind, group.rank());
  std::vector<T> out(count);
  if (type == OpType::reduce_scatter) {
    const auto in = numbers<T>(group.rank(), 0, count * static_cast<std::size_t>(group.size()));
    group.reduce_scatter(in, out, op);
    return out;
  }
  const std::vector<T> in = numbers<T>(group.rank(), 0, count);
  std::size_t begin = 0;
  for (std::size_t piece = 1; piece <= pieces; ++piece) {
    const std::size_t end = piece == pieces ? count : count * piece * piece / (pieces * pieces);
    const ConstBufferView from = ConstBufferView(in).slice(begin, end - begin);
    const BufferView to = BufferView(out).slice(begin, end - begin);
    if (type == OpType::all_reduce)
      group.all_reduce(from, to, op);
    else
      group.reduce(from, to, root, op);
    begin = end;
  }
  if (type == OpType::reduce && group.rank() != root) out.clear();
  return out;
}

/// Whether the one algorithm that the group may take runs this; it says why if not.
template <class T>
bool runs(const ProcessGroup& group, OpType type, ReduceKind kind, std::size_t count) {
  std::vector<T> in(count * static_cast<std::size_t>(group.size()));
  std::vector<T> out(count);
  const ReduceOp op = op_for(kind, group.rank());
  const ConstBufferView part = ConstBufferView(in).slice(0, count);
  const Request request = type == OpType::reduce_scatter
                              ? Request::reduce_scatter(InputBlocks::equal(in), out, op)
                          : type == OpType::all_reduce ? Request::all_reduce(part, out, op)
                                                       : Request::reduce(part, out, 0, op);
  const Explanation why = group.explain(request);
  for (const Candidate& candidate : why.candidates)
    EXPECT_TRUE(candidate.can_run || !candidate.reason.empty()) << candidate.algorithm;
  return !why.algorithm.empty();
}

constexpr OpType reductions[] = {OpType::all_reduce, OpType::reduce, OpType::reduce_scatter};
constexpr ReduceKind kinds[] = {ReduceKind::sum, ReduceKind::product, ReduceKind::avg,
                                ReduceKind::premul_sum};

/// A group for each way of each reduction, which asks for this level.
template <class Body>
void on_every_road(World& world, Reproducibility level, Body&& body) {
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  for (const OpType type : reductions)
    for (const Road& road : roads_of(free, type)) {
      GroupOptions options = forced(road);
      options.reproducibility = level;
      ProcessGroup group = world.new_group(everybody(world), options);
      SCOPED_TRACE(to_string(road));
      body(group, type, road);
      group.destroy();
    }
}

RANK_TEST(Reproducible, FromRunToRun) {
  on_every_road(world, Reproducibility::runs, [](ProcessGroup& group, OpType type, const Road&) {
    for (const std::size_t count : {3u, 4097u}) {
      if (!runs<float>(group, type, ReduceKind::sum, count)) continue;
      const auto once = reduced<float>(group, type, ReduceKind::sum, count, 1);
      for (int again = 0; again < 3; ++again)
        expect_bits(reduced<float>(group, type, ReduceKind::sum, count, 1), once);
    }
  });
}

/// As a fold in rank order, or it does not run.
template <class T>
void check_placement(ProcessGroup& group, OpType type, ReduceKind kind, std::size_t count,
                     std::size_t pieces) {
  if (!runs<T>(group, type, kind, count)) return;
  SCOPED_TRACE(std::string(to_string(data_type_of<T>)) + " " + std::string(to_string(kind)));
  const std::vector<T> result = reduced<T>(group, type, kind, count, pieces);
  if (result.empty()) return;
  const std::size_t first =
      type == OpType::reduce_scatter ? static_cast<std::size_t>(group.rank()) * count : 0;
  expect_bits(result, expected_fold<T>(kind, group.size(), first, count));
}

RANK_TEST(Reproducible, WhateverTheRoadAndTheSplitOfMessages) {
  on_every_road(world, Reproducibility::placement,
                [](ProcessGroup& group, OpType type, const Road&) {
                  for (const ReduceKind kind : kinds)
                    check_placement<float>(group, type, kind, 129, 2);
                  check_placement<double>(group, type, ReduceKind::sum, 129, 1);
                  check_placement<float16>(group, type, ReduceKind::avg, 129, 1);
                  check_placement<bfloat16>(group, type, ReduceKind::premul_sum, 129, 1);
                  for (const std::size_t pieces : {1u, 3u})
                    check_placement<float>(group, type, ReduceKind::sum, 20011, pieces);
                });
}

RANK_TEST(Reproducible, SomethingRunsAtEveryLevel) {
  for (const auto level :
       {Reproducibility::runs, Reproducibility::placement, Reproducibility::size}) {
    ProcessGroup group =
        world.new_group(everybody(world), {.path = every_path(), .reproducibility = level});
    for (const OpType type : reductions)
      for (const std::size_t count : {1u, 1000u, 70001u}) {
        EXPECT_TRUE(runs<float>(group, type, ReduceKind::sum, count)) << to_string(level);
        EXPECT_TRUE(runs<double>(group, type, ReduceKind::avg, count)) << to_string(level);
        EXPECT_TRUE(runs<bfloat16>(group, type, ReduceKind::premul_sum, count)) << to_string(level);
      }
  }
}

// --- size: three summands for each element, whichever ranks hold them
// ------------------------------

/// A whole number of up to 60 + 40 bits that T holds.
template <class T>
Int128 summand(int which, std::size_t index) {
  const std::uint64_t bits = hash(static_cast<std::uint64_t>(which) + 77, index);
  const auto fraction =
      static_cast<Int128>(bits & ((1u << std::numeric_limits<T>::digits / 2) - 1));
  const Int128 value = fraction << (bits >> 32) % 60;
  return bits >> 63 != 0 ? -value : value;
}

/// Rank r holds those summands s with (s + shift) % size == r, added: one, or none.
template <class T>
std::vector<T> share_of(int rank, int size, int shift, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    for (int which = 0; which < 3; ++which)
      if ((which + shift) % size == rank) values[i] = static_cast<T>(summand<T>(which, i));
  return values;
}

template <class T>
void check_size(ProcessGroup& group, OpType type) {
  if (!runs<T>(group, type, ReduceKind::sum, 300)) return;
  constexpr std::size_t count = 300;
  const int size = group.size();
  // By __int128, and its conversion, which rounds to nearest.
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<T>(summand<T>(0, i) + summand<T>(1, i) + summand<T>(2, i));
  for (int shift = 0; shift < std::min(size, 4); ++shift) {
    const std::vector<T> mine = share_of<T>(group.rank(), size, shift, count);
    std::vector<T> result(count);
    if (type == OpType::reduce_scatter) {
      std::vector<T> in;
      for (int block = 0; block < size; ++block) in.insert(in.end(), mine.begin(), mine.end());
      group.reduce_scatter(in, result);
    } else if (type == OpType::all_reduce) {
      group.all_reduce(mine, result);
    } else {
      group.reduce(mine, result, shift);
      if (group.rank() != shift) continue;
    }
    expect_bits(result, all);
  }
}

RANK_TEST(Reproducible, WhateverTheNumberOfRanksAndTheirOrder) {
  if (world.size() < 3) return;  // three summands, one for a rank
  on_every_road(world, Reproducibility::size, [](ProcessGroup& group, OpType type, const Road&) {
    check_size<float>(group, type);
    check_size<double>(group, type);
  });
}

// --- What is refused, and how levels are chosen
// ----------------------------------------------------

RANK_TEST(Reproducible, RoadsThatPromiseLessAreRefused) {
  const auto level = Reproducibility::placement;
  std::size_t refused = 0;
  on_every_road(world, level, [&](ProcessGroup& group, OpType type, const Road& road) {
    if (type != OpType::all_reduce) return;
    std::vector<float> values(64, 1.0f);
    for (const Candidate& candidate :
         group.explain(Request::all_reduce(values, values)).candidates) {
      if (Road{candidate.path, candidate.algorithm} != road) continue;
      if (candidate.can_run) {
        EXPECT_GE(candidate.promises, level);
      } else if (candidate.promises < level &&
                 candidate.reason.find("reproducible") != std::string::npos) {
        ++refused;
        EXPECT_THAT(candidate.reason, HasSubstr("the group asks for 'placement'"));
        try {
          group.all_reduce(values);
          ADD_FAILURE() << "was carried out";
        } catch (const UnsupportedError& error) {
          EXPECT_THAT(error.what(), HasSubstr("not reproducible enough"));
          EXPECT_THAT(error.what(), HasSubstr("HYMN_REPRODUCIBLE"));
        }
      }
    }
    // No order of the inputs can change a sum of whole numbers.
    std::vector<std::int32_t> whole(64, 1);
    if (!runs<std::int32_t>(group, type, ReduceKind::sum, 64)) return;
    group.all_reduce(whole);
    EXPECT_EQ(whole, std::vector<std::int32_t>(64, group.size()));
  });
  // MPI may add in any order, and is there unless the ranks are threads.
  EXPECT_TRUE(refused > 0 || ranks_are_threads() || world.size() == 1);
}

RANK_TEST(Reproducible, ProductsHaveNoExactForm) {
  ProcessGroup group =
      world.new_group(everybody(world), {.reproducibility = Reproducibility::size});
  std::vector<double> values(3, 2.0);
  try {
    group.all_reduce(values, ReduceOp::product);
    ADD_FAILURE() << "was carried out";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("order of its factors"));
  }
  std::vector<std::uint32_t> whole(3, 3);
  group.all_reduce(whole, ReduceOp::product);
  group.all_reduce(values, ReduceOp::max);
  EXPECT_EQ(values.front(), 2.0);
}

RANK_TEST(Reproducible, MembersMustAskForTheSameLevel) {
  NEEDS_RANKS(2);
  GroupOptions options;
  if (world.rank() == 0) options.reproducibility = Reproducibility::runs;
  try {
    world.new_group(everybody(world), options);
    ADD_FAILURE() << "the group was made";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("reproducibility 'runs'"));
  }
  world.group().barrier();
}

void check_default_of_world(World& world) {
  std::vector<float> values(3, 2.0f);
  EXPECT_THROW(world.group().all_reduce(values, ReduceOp::product), UnsupportedError);
  ProcessGroup inherits = world.new_group(everybody(world));
  EXPECT_THROW(inherits.all_reduce(values, ReduceOp::product), UnsupportedError);
  ProcessGroup asks_for_less =
      world.new_group(everybody(world), {.reproducibility = Reproducibility::ranks});
  asks_for_less.all_reduce(values, ReduceOp::product);
  EXPECT_EQ(values, std::vector<float>(3, std::ldexp(1.0f, world.size())));
}

TEST(Reproducible, AGroupAsksForWhatItsWorldDoesUnlessItSays) {
  on_ranks(check_default_of_world, {.reproducibility = Reproducibility::size});
}

}  // namespace
}  // namespace hymn::test
