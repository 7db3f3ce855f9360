// docs/dtypes.md, cell by cell: every element type with every operation, on every instruction set
// that this machine has, against the scalar reference or the refusal.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/reduce/kernel_table.hpp"
#include "hymn/error.hpp"
#include "tests/unit/reduce_reference.hpp"
#include "tests/unit/reduce_scene.hpp"
#include "tests/unit/reduce_targets.hpp"

namespace hymn {
namespace {

using reference::OddArray;
using reference::Random;
using reference::Scene;

struct Row {
  DataType dtype;
  /// One letter for each ReduceKind in its order: + defined, or why it is refused.
  const char* marks;
};

// b: bitwise on floating point, c: bitwise on complex, B and C: logical there, o: no order, l:
// boolean, 8: float8, v: values, t and u: unknown type, k: unknown operation. -: what the program's
// function makes of them, which has tests of its own.
constexpr Row rows[] = {
    {DataType::boolean, "++++++++++ll-k"},     {DataType::int8, "++++++++++++-k"},
    {DataType::uint8, "++++++++++++-k"},       {DataType::int16, "++++++++++++-k"},
    {DataType::uint16, "++++++++++++-k"},      {DataType::int32, "++++++++++++-k"},
    {DataType::uint32, "++++++++++++-k"},      {DataType::int64, "++++++++++++-k"},
    {DataType::uint64, "++++++++++++-k"},      {DataType::float16, "++++bbbBBB++-k"},
    {DataType::bfloat16, "++++bbbBBB++-k"},    {DataType::float32, "++++bbbBBB++-k"},
    {DataType::float64, "++++bbbBBB++-k"},     {DataType::complex64, "++oocccCCC++-k"},
    {DataType::complex128, "++oocccCCC++-k"},  {DataType::float8_e4m3fn, "888888888888-k"},
    {DataType::float8_e5m2, "888888888888-k"}, {DataType::value, "vvvvvvvvvvvv-k"},
    {DataType::opaque, "tttttttttttttk"},
};
static_assert(std::size(rows) == data_type_count);

/// A piece of the text that a refused cell must show.
std::string expected_reason(char mark) {
  switch (mark) {
    case 'b':
      return "bitwise reductions are not defined for floating point";
    case 'c':
      return "bitwise reductions are not defined for complex numbers";
    case 'B':
      return "logical reductions are not defined for floating point";
    case 'C':
      return "logical reductions are not defined for complex numbers";
    case 'o':
      return "complex numbers have no order";
    case 'l':
      return "not a boolean";
    case '8':
      return "moved but never reduced; convert them to float16, bfloat16 or float32 first";
    case 'v':
      return "only a custom reduction says what two of them make";
    case 't':
      return "unknown type: only a path that knows it";
    case 'k':
      return "unknown operation: only a path that knows it";
    default:
      return "";
  }
}

template <class Reference>
void check_result(ReduceKind kind, Scene<Reference>& scene,
                  OddArray<typename Reference::Element>& result) {
  EXPECT_TRUE(result.is_whole());
  for (std::size_t i = 0; i < scene.expected.size(); ++i)
    ASSERT_TRUE(Reference::same(kind, result.get(i), scene.expected[i]))
        << "element " << i << " of " << scene.expected.size() << ", " << scene.inputs.size()
        << " ranks";
}

template <class Reference>
void check_reduce_all(Random& random, const Reducer& reducer, const ReduceOp& op, std::size_t ranks,
                      std::size_t count) {
  Scene<Reference> scene(random, op, ranks, count);
  std::vector<const void*> inputs;
  inputs.reserve(ranks);
  for (auto& input : scene.inputs) inputs.push_back(input.data());
  OddArray<typename Reference::Element> result(count);
  reduce_all(reducer, inputs.data(), static_cast<int>(ranks), result.data(), count);
  check_result(op.kind(), scene, result);
}

/// As an algorithm does that sees one input after the other.
template <class Reference>
void check_steps(Random& random, const Reducer& reducer, const ReduceOp& op, std::size_t ranks,
                 std::size_t count) {
  Scene<Reference> scene(random, op, ranks, count);
  const std::size_t bytes = count * reducer.accumulator_bytes;
  const auto load = [&](std::size_t rank) {
    OddArray<std::byte> accumulator(bytes);
    if (reducer.needs_load())
      reducer.load(accumulator.data(), scene.inputs[rank].data(), count, reducer.factor);
    else
      std::memcpy(accumulator.data(), scene.inputs[rank].data(), bytes);
    return accumulator;
  };
  OddArray<std::byte> accumulator = load(0);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    OddArray<std::byte> other = load(rank);
    reducer.combine(accumulator.data(), other.data(), count);
    EXPECT_TRUE(other.is_whole());
  }
  EXPECT_TRUE(accumulator.is_whole());
  OddArray<typename Reference::Element> result(count);
  if (reducer.needs_store())
    reducer.store(result.data(), accumulator.data(), count, static_cast<int>(ranks));
  else
    std::memcpy(result.data(), accumulator.data(), bytes);
  check_result(op.kind(), scene, result);
}

struct Cell {
  const TargetKernels* target;
  DataType dtype;
  ReduceKind kind;
  char mark;
};

std::vector<Cell> cells_marked(bool defined) {
  std::vector<Cell> cells;
  for (const TargetKernels& target : all_target_kernels())
    for (const Row& row : rows)
      for (std::size_t kind = 0; kind < reduce_kind_count; ++kind)
        if (row.marks[kind] != '-' && (row.marks[kind] == '+') == defined)
          cells.push_back({&target, row.dtype, static_cast<ReduceKind>(kind), row.marks[kind]});
  return cells;
}

std::ostream& operator<<(std::ostream& out, const Cell& cell) {
  return out << "marked " << cell.mark;
}

std::string name_of_cell(const testing::TestParamInfo<Cell>& info) {
  const Cell& cell = info.param;
  return cell.target->name + "_" + std::string(to_string(cell.dtype)) + "_" +
         std::string(to_string(cell.kind));
}

class RefusedCell : public testing::TestWithParam<Cell> {};

TEST_P(RefusedCell, SaysWhy) {
  const Cell& cell = GetParam();
  const std::string reason = refusal(cell.dtype, cell.kind);
  EXPECT_NE(reason.find(expected_reason(cell.mark)), std::string::npos) << reason;
  try {
    detail::make_reducer(cell.target->table, cell.dtype, ReduceOp::of(cell.kind));
    FAIL() << "not refused";
  } catch (const UnsupportedError& error) {
    EXPECT_EQ(error.problem(), reason);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedCell, testing::ValuesIn(cells_marked(false)), name_of_cell);

class DefinedCell : public testing::TestWithParam<Cell> {};

/// The operations of a cell: one, or premul_sum with several factors.
std::vector<ReduceOp> operations(const Cell& cell) {
  if (cell.kind != ReduceKind::premul_sum) return {ReduceOp::of(cell.kind)};
  std::vector<ReduceOp> all;
  reference::with_reference(cell.dtype, [&]<class Reference>() {
    for (const double factor : Reference::factors) all.push_back(ReduceOp::premul_sum(factor));
  });
  return all;
}

TEST_P(DefinedCell, GivesTheBitsOfTheReference) {
  const Cell& cell = GetParam();
  EXPECT_EQ(refusal(cell.dtype, cell.kind), "");
  Random random(20 * static_cast<unsigned>(cell.dtype) + static_cast<unsigned>(cell.kind));
  std::size_t checked = 0;
  for (const ReduceOp& op : operations(cell)) {
    const Reducer reducer = detail::make_reducer(cell.target->table, cell.dtype, op);
    for (const std::size_t ranks : {1u, 2u, 3u, 7u})
      for (const std::size_t count : {0u, 1u, 33u, 1100u})  // 1100: several blocks of wide elements
        reference::with_reference(cell.dtype, [&]<class Reference>() {
          check_reduce_all<Reference>(random, reducer, op, ranks, count);
          if (ranks > 1) check_steps<Reference>(random, reducer, op, ranks, count);
          ++checked;
        });
  }
  EXPECT_GE(checked, 16u);
}

TEST_P(DefinedCell, DoesNotDependOnWhichOperandIsWhich) {
  const Cell& cell = GetParam();
  constexpr std::size_t count = 4000;
  const ReduceOp op = ReduceOp::of(cell.kind);  // premul_sum with factor 1
  const Reducer reducer = detail::make_reducer(cell.target->table, cell.dtype, op);
  Random random(7);
  std::size_t checked = 0;
  reference::with_reference(cell.dtype, [&]<class Reference>() {
    Scene<Reference> scene(random, op, 2, count);
    OddArray<typename Reference::Element> forward(count);
    OddArray<typename Reference::Element> backward(count);
    const void* inputs[] = {scene.inputs[0].data(), scene.inputs[1].data()};
    reduce_all(reducer, inputs, 2, forward.data(), count);
    std::swap(inputs[0], inputs[1]);
    reduce_all(reducer, inputs, 2, backward.data(), count);
    for (; checked < count; ++checked)
      ASSERT_TRUE(Reference::same(cell.kind, forward.get(checked), backward.get(checked)))
          << "element " << checked;
  });
  EXPECT_EQ(checked, count);
}

INSTANTIATE_TEST_SUITE_P(Table, DefinedCell, testing::ValuesIn(cells_marked(true)), name_of_cell);

TEST(ReduceTable, ProductChoosesTheBestInstructionSet) {
  // Highway lists the best target first.
  const detail::KernelTable& best = all_target_kernels().front().table;
  for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::max})
    EXPECT_EQ(combine_function(Accumulator::float32, kind),
              best.combine(Accumulator::float32, kind));
  EXPECT_EQ(reducer_for(DataType::bfloat16, ReduceOp::sum).load,
            best.conversion(DataType::bfloat16).load);
}

TEST(ReduceTable, CombineFunctionsAreThoseOfTheReducers) {
  for (const Row& row : rows)
    for (std::size_t kind = 0; kind < reduce_kind_count; ++kind) {
      if (row.marks[kind] != '+') continue;
      const Reducer reducer = reducer_for(row.dtype, ReduceOp::of(static_cast<ReduceKind>(kind)));
      ASSERT_NE(reducer.combine, nullptr);
      EXPECT_EQ(reducer.combine, combine_function(reducer.accumulator, reducer.kind));
      EXPECT_EQ(reducer.element_bytes, size_of(row.dtype));
      EXPECT_EQ(reducer.accumulator_bytes, size_of(reducer.accumulator));
    }
  EXPECT_EQ(combine_function(Accumulator::float32, ReduceKind::bor), nullptr);
  EXPECT_EQ(combine_function(Accumulator::complex64, ReduceKind::max), nullptr);
  EXPECT_EQ(combine_function(Accumulator::int128, ReduceKind::product), nullptr);
  EXPECT_EQ(combine_function(Accumulator::int32, ReduceKind::avg), nullptr);
  EXPECT_EQ(combine_function(Accumulator::int32, ReduceKind::opaque), nullptr);
}

TEST(ReduceTable, ValuesFromOutsideTheEnumerationsAreUnknown) {
  const auto dtype = static_cast<DataType>(data_type_count);
  const auto kind = static_cast<ReduceKind>(reduce_kind_count);
  EXPECT_THROW(reducer_for(dtype, ReduceOp::sum), UnsupportedError);
  EXPECT_THROW(reducer_for(DataType::float32, ReduceOp::of(kind)), UnsupportedError);
  EXPECT_THROW(reducer_for(DataType::float8_e5m2, ReduceOp::sum), UnsupportedError);
  EXPECT_EQ(combine_function(Accumulator::float32, kind), nullptr);
}

TEST(ReduceTable, WhereThereIsNoKernelNothingIsReduced) {
  const detail::KernelTable empty;
  for (const ReduceKind kind : all_reduce_kinds)
    for (const DataType dtype : all_data_types)
      EXPECT_THROW(detail::make_reducer(empty, dtype, ReduceOp::of(kind)), Error)
          << to_string(kind) << " of " << to_string(dtype);
}

TEST(ReduceTable, ReducersKeepTheFactorTheyWereAskedFor) {
  EXPECT_EQ(reducer_for(DataType::float32, ReduceOp::premul_sum(3)).factor, 3);
  EXPECT_EQ(reducer_for(DataType::float32, ReduceOp::premul_sum(4)).factor, 4);
  EXPECT_EQ(reducer_for(DataType::float32, ReduceOp::sum).factor, 1);
}

}  // namespace
}  // namespace hymn
