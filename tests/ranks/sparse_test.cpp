// all_reduce of sparse tensors.
#include "hymn/sparse.hpp"

#include <cmath>
#include <vector>

#include "tests/ranks/sparse_tensors.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

template <class T>
void expect_sums(World& world, std::uint64_t cases) {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    auto parts = random_parts<T>(dice, world.size());
    Coo<T>& mine = parts[as_size(world.rank())];
    expect_rows(all_reduce_sparse(world.group(), mine.view()), sum_of(parts), mine);
  }
}

// Of fractions, so that another order of the sum would be seen.
RANK_TEST(Sparse, SumsAreFoldedInTheOrderOfRanksAndEntries) {
  expect_sums<float>(world, 25);
  expect_sums<double>(world, 25);
  expect_sums<std::int64_t>(world, 25);
}

/// A row that some ranks have, with what data.hpp knows all reductions of.
void expect_reduced(World& world, DataType dtype, ReduceKind kind, bool is_declared) {
  SCOPED_TRACE(cell_name(dtype, kind));
  constexpr std::size_t block = 5;
  constexpr std::int64_t rows = 4;
  // Of an average the oracle divides by the number of inputs: so each rank gives all.
  const auto has = [&](int rank, std::int64_t row) {
    return kind == ReduceKind::avg || (rank + row) % 3 != 0;
  };
  const auto first = [](std::int64_t row) { return static_cast<std::size_t>(row) * block; };
  Sizes indices;
  Buffer values(dtype, rows * block);
  for (std::int64_t row = rows - 1; row >= 0; --row) {  // not in order
    if (!has(world.rank(), row)) continue;
    fill_numbers(values.slice(indices.size() * block, block), kind, world.rank(), first(row));
    indices.push_back(row);
  }
  const Sizes shape{rows, block};
  const Sizes all{2, 3, 0, 1};
  const SparseView tensor{
      .shape = shape, .indices = indices, .values = values.slice(0, indices.size() * block)};
  const SparseTensor result = all_reduce_sparse(
      world.group(), tensor,
      {.reduction = ReduceOp::of(kind),
       .declared = is_declared ? std::span(all) : std::span<const std::int64_t>()});
  ASSERT_EQ(result.dtype, dtype);
  for (std::size_t i = 0; i < result.entries(); ++i) {
    const std::int64_t row = result.indices[i];
    std::vector<int> who;
    for (int rank = 0; rank < world.size(); ++rank)
      if (has(rank, row)) who.push_back(rank);
    if (who.empty()) continue;
    expect_equal(reduction_result(dtype, kind, who, block, first(row)),
                 result.view().values.slice(i * block, block));
  }
  EXPECT_EQ(result.indices.size(), is_declared || world.size() > 1 || kind == ReduceKind::avg
                                       ? as_size(rows)
                                       : indices.size());
}

RANK_TEST(Sparse, AllReductionsOfAllTypes) {
  for (const DataType dtype : all_dtypes())
    for (const ReduceKind kind : all_kinds()) {
      if (dtype == DataType::value || kind == ReduceKind::premul_sum ||
          kind == ReduceKind::custom || !is_defined(dtype, kind))
        continue;
      expect_reduced(world, dtype, kind, false);
      expect_reduced(world, dtype, kind, true);
    }
}

RANK_TEST(Sparse, AnAverageIsDividedByTheNumberOfRanks) {
  // Rank 0 gives its entry twice; nobody else has it.
  Coo<double> mine{.shape = {3}};
  if (world.rank() == 0) {
    mine.add({2}, {3.0});
    mine.add({2}, {4.0});
  }
  const double wanted = 7.0 / world.size();
  expect_rows(all_reduce_sparse(world.group(), mine.view(), {.reduction = ReduceOp::avg}),
              {{{2}, {wanted}}}, mine);
  const Sizes declared{0, 2};
  expect_rows(all_reduce_sparse(world.group(), mine.view(),
                                {.reduction = ReduceOp::avg, .declared = declared}),
              {{{0}, {0.0}}, {{2}, {wanted}}}, mine);
}

RANK_TEST(Sparse, OfNothing) {
  Coo<float> mine{.shape = {7, 2}};
  expect_rows(all_reduce_sparse(world.group(), mine.view()), {}, mine);
  Coo<float> nowhere{.shape = {0, 2}};
  expect_rows(all_reduce_sparse(world.group(), nowhere.view()), {}, nowhere);
  // Entries without values, as in torch.
  Coo<float> hollow{.shape = {7, 0}};
  hollow.add({world.rank() % 7}, {});
  const SparseTensor result = all_reduce_sparse(world.group(), hollow.view());
  EXPECT_EQ(result.entries(), std::min<std::size_t>(ranks_as_size(world), 7));
  EXPECT_TRUE(result.values.empty());
}

RANK_TEST(Sparse, SomeRanksHaveNothing) {
  Coo<std::int32_t> mine{.shape = {1000, 1000}, .sparse_dims = 2};
  if (world.rank() == world.size() - 1) mine.add({999, 3}, {5});
  expect_rows(all_reduce_sparse(world.group(), mine.view()), {{{999, 3}, {5}}}, mine);
}

RANK_TEST(Sparse, AResultIsAnInput) {
  Coo<std::int64_t> mine{.shape = {9, 1}};
  mine.add({8}, {1});
  mine.add({4}, {2});
  const SparseTensor once = all_reduce_sparse(world.group(), mine.view());
  const SparseTensor twice = all_reduce_sparse(world.group(), once.view());
  const std::int64_t n = world.size();
  expect_rows(twice, {{{4}, {2 * n * n}}, {{8}, {n * n}}}, mine);
  expect_error(ErrorKind::usage, [&] { twice.values_as<float>(); }, {"int64", "float32"});
}

RANK_TEST(Sparse, OutsideOfTheGroupNothingComes) {
  ProcessGroup group = world.new_group({0});
  Coo<std::int32_t> mine{.shape = {4}};
  mine.add({3}, {7});
  const SparseTensor result = all_reduce_sparse(group, mine.view());
  EXPECT_EQ(result.entries(), group.is_member() ? 1u : 0u);
}

RANK_TEST(Sparse, ExactSumsDoNotDependOnTheOrder) {
  ProcessGroup group = fresh_group(world, {.reproducibility = Reproducibility::size});
  Coo<float> mine{.shape = {2}};
  for (const float value : {1e30f, 1.0f, -1e30f}) mine.add({1}, {value});
  const auto n = static_cast<float>(world.size());
  expect_rows(all_reduce_sparse(group, mine.view()), {{{1}, {n}}}, mine);
}

// --- Declared indices

RANK_TEST(Sparse, OfDeclaredIndicesValuesAloneTravel) {
  ProcessGroup& group = world.group();
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    auto parts = random_parts<std::int64_t>(dice, world.size());
    Coo<std::int64_t>& mine = parts[as_size(world.rank())];
    Rows<std::int64_t> rows = sum_of(parts);
    rows.try_emplace(Sizes(mine.sparse_dims, 0), mine.block());  // one that perhaps nobody has
    std::vector<Sizes> places;
    for (const auto& [place, row] : rows) places.push_back(place);
    if (world.rank() % 2 == 1) std::reverse(places.begin(), places.end());
    const Sizes declared = indices_of(places, mine.sparse_dims);
    const std::uint64_t before = group.collective_sequence();
    expect_rows(all_reduce_sparse(group, mine.view(), {.declared = declared}), rows, mine);
    EXPECT_EQ(group.collective_sequence(), before + 2);
  }
}

RANK_TEST(Sparse, WhereNobodyHasAnEntryNothingIsChanged) {
  Coo<float> mine{.shape = {2}};
  const Sizes declared{1};
  const auto value = [&](const ReduceOp& op) {
    const SparseTensor result =
        all_reduce_sparse(world.group(), mine.view(), {.reduction = op, .declared = declared});
    return result.values_as<float>()[0];
  };
  EXPECT_EQ(value(ReduceOp::sum), 0.0f);
  EXPECT_FALSE(std::signbit(value(ReduceOp::sum)));
  EXPECT_EQ(value(ReduceOp::product), 1.0f);
  EXPECT_EQ(value(ReduceOp::min), std::numeric_limits<float>::infinity());
}

// --- The test of torch.distributed (docs/seeds.md)

// Its gradient reducer divides by the number of ranks, and knows the rows of the embedding.
RANK_TEST(Sparse, test_ddp_set_sparse_metadata) {
  constexpr std::int64_t vocabulary = 5;
  constexpr std::size_t dimension = 10;
  Coo<float> gradient{.shape = {vocabulary, dimension}};
  for (const std::int64_t token : {1, 0, 0, 0, 0, 0, 0, 0, 0})
    gradient.add({token}, std::vector<float>(dimension, 0.5f));
  const Sizes declared{0, 1, 2, 3, 4};
  const SparseTensor result = all_reduce_sparse(world.group(), gradient.view(),
                                                {.reduction = ReduceOp::avg, .declared = declared});
  EXPECT_EQ(result.indices, declared);
  const std::vector<float> none(dimension);
  expect_rows(result,
              {{{0}, std::vector<float>(dimension, 4.0f)},
               {{1}, std::vector<float>(dimension, 0.5f)},
               {{2}, none},
               {{3}, none},
               {{4}, none}},
              gradient);
}

}  // namespace
}  // namespace hymn::test
