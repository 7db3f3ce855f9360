// Sparse gradients, NaNs, and by which names calls are known.
#include <algorithm>
#include <cmath>

#include "tests/support/errors.hpp"
#include "tests/training/toy_step.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;

constexpr std::int64_t rows = 7;
constexpr std::int64_t columns = 2;
constexpr std::int64_t table_shape[] = {rows, columns};

/// A table, whose gradients are sparse, beside a dense parameter.
struct TableModel {
  explicit TableModel(DataType dtype = DataType::float32)
      : table(rows * columns * size_of(dtype)), dtype_(dtype) {}

  std::vector<Parameter> parameters() {
    BufferView data(table.data(), rows * columns, dtype_);
    data.shape = table_shape;
    return {{.name = "table", .data = data, .sparse_dims = 1},
            {.name = "dense", .data = dense, .gradient = dense_gradient}};
  }
  std::vector<std::byte> table;
  std::vector<float> dense = {1, 2, 3}, dense_gradient = {0, 0, 0};

 private:
  DataType dtype_;
};

/// Rows with the same value in each column.
struct Rows {
  Rows(std::vector<std::int64_t> rows_, const std::vector<float>& each)
      : indices(std::move(rows_)) {
    for (const float value : each) values.insert(values.end(), columns, value);
  }
  SparseView view() const { return {.shape = table_shape, .indices = indices, .values = values}; }
  std::vector<std::int64_t> indices;
  std::vector<float> values;
};

void expect_row(const SparseTensor& tensor, std::int64_t row, float value) {
  const auto at = std::ranges::find(tensor.indices, row);
  ASSERT_NE(at, tensor.indices.end()) << "row " << row;
  const std::size_t entry = static_cast<std::size_t>(at - tensor.indices.begin());
  for (std::size_t column = 0; column < columns; ++column)
    EXPECT_FLOAT_EQ(tensor.values_as<float>()[entry * columns + column], value) << "row " << row;
}

RANK_TEST(SparseGradients, AreAveragedByTheirRows) {
  const int ranks = world.size();
  TableModel model;
  GradientReducer reducer(world.group(), model.parameters());
  EXPECT_EQ(reducer.buckets(), (std::vector<std::vector<std::size_t>>{{1}}));
  for (int iteration = 0; iteration < 3; ++iteration) {
    // Row 0 is everybody's, twice; another is this rank's alone, where there are so many.
    const float mine = static_cast<float>(world.rank() + 1 + iteration);
    const std::int64_t own = 1 + world.rank() % (rows - 1);
    const Rows gradient({own, 0, 0}, {mine, mine, 1});
    std::ranges::fill(model.dense_gradient, mine);
    reducer.ready(0, gradient.view());
    EXPECT_FALSE(reducer.is_complete());
    reducer.ready(1);
    EXPECT_TRUE(reducer.is_complete());
    reducer.finish();
    const SparseTensor& average = reducer.sparse_gradient(0);
    float sum = 0, of_own = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      sum += static_cast<float>(rank + 2 + iteration);
      if (1 + rank % (rows - 1) == own) of_own += static_cast<float>(rank + 1 + iteration);
    }
    const auto n = static_cast<float>(ranks);
    EXPECT_EQ(average.entries(), std::min<std::size_t>(rows, static_cast<std::size_t>(ranks) + 1));
    expect_row(average, 0, sum / n);
    expect_row(average, own, of_own / n);
    EXPECT_FLOAT_EQ(model.dense_gradient[0], (sum - n) / n);
  }
}

RANK_TEST(SparseGradients, MayBeUnused) {
  TableModel model;
  GradientReducer reducer(world.group(), model.parameters(), {.find_unused_parameters = true});
  const Rows gradient({3}, {8});
  const std::size_t table[] = {0};
  const bool is_first = world.rank() == 0;
  reducer.prepare(is_first ? std::span<const std::size_t>(table) : std::span<const std::size_t>());
  if (is_first) reducer.ready(0, gradient.view());
  reducer.finish();
  EXPECT_FALSE(reducer.is_unused(0));
  EXPECT_TRUE(reducer.is_unused(1));
  expect_row(reducer.sparse_gradient(0), 3, 8.0f / static_cast<float>(world.size()));
  reducer.prepare(std::span<const std::size_t>());
  reducer.finish();
  EXPECT_TRUE(reducer.is_unused(0));
  EXPECT_EQ(reducer.sparse_gradient(0).entries(), 0u);
}

// Ranks that have run out give no entries; who divides by the others does so afterwards.
RANK_TEST(SparseGradients, Join) {
  for (const auto divisor : {JoinDivisor::initial, JoinDivisor::active}) {
    TableModel model;
    GradientReducer reducer(world.group(), model.parameters());
    Join join({&reducer}, {.divisor = divisor});
    join.run([&] {
      for (int iteration = 0; iteration <= world.rank(); ++iteration) {
        const Rows gradient({2}, {4});
        reducer.prepare();
        reducer.ready(0, gradient.view());
        reducer.ready(1);
        reducer.finish();
        const int active = world.size() - iteration;
        const int by = divisor == JoinDivisor::active ? active : world.size();
        expect_row(reducer.sparse_gradient(0), 2,
                   4.0f * static_cast<float>(active) / static_cast<float>(by));
      }
    });
  }
}

// With the declared rows, in ascending order, whichever rank has given which.
RANK_TEST(SparseGradients, HaveTheRowsThatWereDeclared) {
  TableModel model;
  GradientReducer reducer(world.group(), model.parameters());
  const std::vector<std::int64_t> declared = {5, 0, 2};
  const auto step = [&](const std::vector<std::int64_t>& indices) {
    const Rows gradient(indices, std::vector<float>(indices.size(), 6));
    reducer.ready(0, gradient.view());
    reducer.ready(1);
    reducer.finish();
    return reducer.sparse_gradient(0);
  };
  reducer.set_sparse_metadata(0, declared);
  for (int iteration = 0; iteration < 2; ++iteration) {
    const SparseTensor average = step({2, 2});
    EXPECT_EQ(average.indices, (std::vector<std::int64_t>{0, 2, 5}));
    expect_row(average, 2, 12);
    expect_row(average, 5, 0);
  }
  reducer.set_sparse_metadata(0, {});
  EXPECT_EQ(step({2}).indices, std::vector<std::int64_t>{2});
  reducer.set_sparse_metadata(0, declared);
  EXPECT_THROW(step({1}), Error);  // of whichever rank tells of it first
}

RANK_TEST(SparseGradients, AreDeclaredBetweenIterations) {
  TableModel model;
  GradientReducer reducer(world.group(), model.parameters());
  const std::vector<std::int64_t> declared = {1};
  expect_error(ErrorKind::usage, [&] { reducer.set_sparse_metadata(1, declared); }, {"is dense"});
  expect_error(ErrorKind::usage, [&] { reducer.set_sparse_metadata(2, declared); },
               {"no parameter 2"});
  const Rows gradient({1}, {1});
  reducer.ready(0, gradient.view());
  expect_error(ErrorKind::usage, [&] { reducer.set_sparse_metadata(0, declared); },
               {"midst of an iteration"});
  reducer.ready(1);
  reducer.finish();
}

RANK_TEST(SparseGradients, WhatDoesNotFitIsRefused) {
  TableModel model;
  GradientReducer reducer(world.group(), model.parameters());
  const Rows gradient({0}, {1});
  SparseView other = gradient.view();
  constexpr std::int64_t longer[] = {rows + 1, columns};
  other.shape = longer;
  expect_error(ErrorKind::usage, [&] { reducer.ready(0, other); },
               {"parameter 0 (table)", "[7, 2]", "[8, 2]"});
  expect_error(ErrorKind::usage, [&] { reducer.ready(0); }, {"parameter 0 (table)", "sparse"});
  expect_error(ErrorKind::usage, [&] { reducer.ready(1, gradient.view()); },
               {"parameter 1 (dense)", "sparse_dims"});
  expect_error(ErrorKind::usage, [&] { (void)reducer.gradient(0); }, {"sparse_gradient()"});
  expect_error(ErrorKind::usage, [&] { (void)reducer.sparse_gradient(1); }, {"is dense"});
  reducer.ready(0, gradient.view());
  reducer.ready(1);
  reducer.finish();
}

RANK_TEST(SparseGradients, RanksMustAgreeThatTheyAre) {
  NEEDS_RANKS(2);
  TableModel model;
  std::vector<Parameter> parameters = model.parameters();
  std::vector<float> place(rows * columns);
  if (world.rank() == 1) {
    parameters[0].sparse_dims = 0;
    parameters[0].gradient = place;
    parameters[0].gradient.shape = table_shape;
  }
  expect_error(ErrorKind::usage, [&] { GradientReducer reducer(world.group(), parameters); },
               {"table", "sparse"});
}

// --- NaNs and names ------------------------------------------------------------------------------

RANK_TEST(GradientNames, ANanIsToldWithItsParameter) {
  const ProcessGroup group = world.new_group(everybody(world), {.nan_check = true});
  std::vector<float> a(5), b(6);
  std::vector<float> a_gradient(5, 1.0f), b_gradient(6, 1.0f);
  const bool is_first = world.rank() == 0;
  if (is_first) b_gradient[2] = std::nanf("");
  const std::vector<Parameter> parameters = {{.name = "a", .data = a, .gradient = a_gradient},
                                             {.name = "b", .data = b, .gradient = b_gradient}};
  const auto step = [&] {
    GradientReducer reducer(group, parameters);
    world.group().barrier();
    reducer.ready(0);
    reducer.ready(1);
    reducer.finish();
  };
  if (is_first)
    expect_error(ErrorKind::usage, step, {"element 2", "parameter 1 (b)", "NaN"});
  else
    expect_error(ErrorKind::aborted, step, {"parameter 1 (b)", "NaN"});
}

RANK_TEST(GradientNames, CallsAreKnownByTheirBuckets) {
  ToyModel model;
  model.add("conv1.weight", {3}).add("conv1.bias", {2}).add("fc", {4}, DataType::float64);
  GradientReducer reducer(world.group(), model.parameters());
  ToyStep step(world, model, reducer);
  step.backward(0);
  const std::string record = world.flight_record();
  EXPECT_NE(record.find("bucket 0 (fc)"), std::string::npos) << record;
  EXPECT_NE(record.find("bucket 1 (conv1.bias and 1 more)"), std::string::npos) << record;
}

}  // namespace
}  // namespace hymn::test
