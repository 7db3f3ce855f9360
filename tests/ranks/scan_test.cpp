// scan and exscan: every cell of docs/dtypes.md but averages, bit for bit, and what they refuse.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/errors.hpp"
#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

constexpr OpType prefixes[] = {OpType::scan, OpType::exscan};

void check(ProcessGroup& group, const CallPlan& plan) {
  SCOPED_TRACE(describe(plan));
  const KnownCall blocking(group, plan);
  group.run(blocking.request());
  blocking.check();
  const KnownCall flying(group, plan);
  group.start(flying.request()).wait();
  flying.check();
}

RANK_TEST(Scan, EveryDtypeAndOperation) {
  Drawer drawer(7);
  for (const OpType type : prefixes)
    for (const Cell cell : cells_of(type))
      for (const std::size_t count : {1u, 65u, 1000u})
        check(world.group(), drawer.plan(type, cell, count, world.size()));
}

/// In place on some ranks, and not on others.
RANK_TEST(Scan, EveryCount) {
  constexpr Cell cells[] = {{DataType::float32, ReduceKind::sum},
                            {DataType::boolean, ReduceKind::bxor},
                            {DataType::bfloat16, ReduceKind::premul_sum},
                            {DataType::float64, ReduceKind::max},
                            {DataType::complex128, ReduceKind::product}};
  for (const OpType type : prefixes)
    for (const Cell cell : cells)
      for (const std::size_t count : {0u, 1u, 2u, 63u, 4099u, 20001u})
        check(world.group(), {.type = type,
                              .dtype = cell.dtype,
                              .kind = cell.kind,
                              .count = count,
                              .in_offset = 1,
                              .in_place = (static_cast<int>(count) + world.rank()) % 2 == 0});
}

RANK_TEST(Scan, ByNameOfSomeRanks) {
  NEEDS_RANKS(3);
  ProcessGroup group = world.new_group({0, world.size() - 1});
  if (!group.is_member()) return;
  std::int64_t value = group.rank() + 5;
  group.scan(view_of(value));
  EXPECT_EQ(value, group.rank() == 0 ? 5 : 11);
  value = 3;
  group.exscan_async(view_of(value), ReduceOp::max).wait();
  EXPECT_EQ(value, 3);
  std::int64_t out = -1;
  value = group.rank() + 8;
  group.exscan(view_of(value), view_of(out));
  EXPECT_EQ(out, group.rank() == 0 ? -1 : 8);
}

float number(int rank, std::size_t index) {
  return std::pow(-1.7F, static_cast<float>(index % 40)) / (static_cast<float>(rank) + 1.1F);
}

/// ((x0 + x1) + x2) + …, whatever carries it, and however many ranks come behind.
RANK_TEST(Scan, HasTheBitsOfASerialSum) {
  ProcessGroup group =
      world.new_group(everybody(world), {.reproducibility = Reproducibility::placement});
  for (const std::size_t count : {3u, 257u, 60001u}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = number(world.rank(), i);
    group.scan(values);
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = number(0, i);
      for (int rank = 1; rank <= world.rank(); ++rank) expected[i] += number(rank, i);
    }
    EXPECT_EQ(values, expected);
  }
}

/// What is passed on has been rounded: only those who see all inputs sum exactly.
RANK_TEST(Scan, IsExactOrRefused) {
  NEEDS_RANKS(3);
  ProcessGroup group =
      world.new_group(everybody(world), {.reproducibility = Reproducibility::size});
  const double value = world.rank() == 0 ? 0x1p53 : 1;
  double sum = 0;
  const auto scan = [&] { group.scan(view_of(value), view_of(sum)); };
  if (group.explain(Request::scan(view_of(value), view_of(sum))).algorithm.empty()) {
    expect_error(ErrorKind::unsupported, scan, {"scan_pairwise", "'size'"});
    world.group().barrier();  // nobody leaves the group before all have been refused
    return;
  }
  scan();
  const auto ones = static_cast<double>(world.rank() / 2 * 2);  // of a tie, the even one
  if (world.rank() % 4 != 3) {
    EXPECT_EQ(sum, 0x1p53 + ones);
  }
}

RANK_TEST(Scan, RefusesAverages) {
  std::vector<float> values(3, 1.0F);
  expect_error(ErrorKind::unsupported, [&] { world.group().scan(values, ReduceOp::avg); },
               {"scan of avg"});
  expect_error(ErrorKind::unsupported,
               [&] { world.group().exscan_async(values, ReduceOp::avg).wait(); },
               {"exscan of avg"});
  world.group().barrier();
}

}  // namespace
}  // namespace hymn::test
