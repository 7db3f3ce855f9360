// all_reduce of sparse tensors.
#include "hymn/sparse.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "hymn/coalesce.hpp"
#include "hymn/values.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A tensor as a test makes it: one entry after the other.
template <class T>
struct Coo {
  Sizes shape;
  std::size_t sparse_dims = 1;
  std::vector<Sizes> places{};
  std::vector<T> values{};
  Sizes indices{};  // of view()

  std::size_t block() const {
    std::size_t elements = 1;
    for (std::size_t d = sparse_dims; d < shape.size(); ++d)
      elements *= static_cast<std::size_t>(shape[d]);
    return elements;
  }
  void add(const Sizes& place, const std::vector<T>& value) {
    places.push_back(place);
    values.insert(values.end(), value.begin(), value.end());
  }
  SparseView view() {
    indices.clear();
    for (std::size_t d = 0; d < sparse_dims; ++d)
      for (const Sizes& place : places) indices.push_back(place[d]);
    return {.shape = shape, .indices = indices, .values = values, .sparse_dims = sparse_dims};
  }
};

Sizes indices_of(const std::vector<Sizes>& places, std::size_t sparse_dims) {
  Coo<int> coo{.shape = {}, .sparse_dims = sparse_dims, .places = places};
  coo.view();
  return coo.indices;
}

/// What must come of it.
template <class T>
using Rows = std::map<Sizes, std::vector<T>>;

template <class T>
void expect_rows(const SparseTensor& tensor, const Rows<T>& rows, const Coo<T>& given,
                 std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "from here");
  std::vector<Sizes> places;
  std::vector<T> values;
  for (const auto& [place, row] : rows) {
    places.push_back(place);
    values.insert(values.end(), row.begin(), row.end());
  }
  EXPECT_EQ(tensor.shape, given.shape);
  EXPECT_EQ(tensor.sparse_dims, given.sparse_dims);
  EXPECT_EQ(tensor.entries(), rows.size());
  EXPECT_EQ(tensor.indices, indices_of(places, given.sparse_dims));
  const auto got = tensor.values_as<T>();
  EXPECT_EQ(std::vector<T>(got.begin(), got.end()), values);
}

/// The sum of all, folded in the order of ranks and entries.
template <class T>
Rows<T> sum_of(const std::vector<Coo<T>>& parts) {
  Rows<T> rows;
  for (const Coo<T>& part : parts)
    for (std::size_t i = 0; i < part.places.size(); ++i) {
      const std::size_t block = part.block();
      const auto [row, is_new] = rows.try_emplace(part.places[i], block);
      for (std::size_t k = 0; k < block; ++k) {
        const T value = part.values[i * block + k];
        row->second[k] = is_new ? value : static_cast<T>(row->second[k] + value);
      }
    }
  return rows;
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  std::mt19937_64 random_;
};

/// What all ranks give: some nothing, some one index often.
template <class T>
std::vector<Coo<T>> random_parts(Dice& dice, int ranks) {
  const std::size_t sparse_dims = 1 + dice.below(3);
  Sizes shape;
  for (std::size_t d = 0; d < sparse_dims + dice.below(3); ++d)
    shape.push_back(static_cast<std::int64_t>(1 + dice.below(d < sparse_dims ? 6 : 4)));
  std::vector<Coo<T>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    Coo<T> part{.shape = shape, .sparse_dims = sparse_dims};
    const std::size_t entries = dice.below(3) == 0 ? 0 : dice.below(40);
    for (std::size_t i = 0; i < entries; ++i) {
      Sizes place;
      for (std::size_t d = 0; d < sparse_dims; ++d)
        place.push_back(static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(shape[d]))));
      std::vector<T> value(part.block());
      for (T& each : value) each = static_cast<T>(static_cast<int>(dice.below(2001)) - 1000) / 3;
      part.add(place, value);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

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

// --- While other calls are made

/// Until the Work has completed.
template <class T>
struct Started {
  Coo<T> mine;
  SparseView view = mine.view();
  SparseTensor result{};
  Work work{};

  void start(const ProcessGroup& group, const SparseOptions& options = {}) {
    work = all_reduce_sparse_async(group, view, result, options);
  }
};

RANK_TEST(Sparse, ManyMayBeUnderWayAmongOtherCalls) {
  ProcessGroup& group = world.group();
  const std::uint64_t before = group.collective_sequence();
  std::vector<std::vector<Coo<float>>> parts;
  std::vector<std::unique_ptr<Started<float>>> all;
  std::vector<Work> works;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Dice dice(seed);
    parts.push_back(random_parts<float>(dice, world.size()));
    all.push_back(std::make_unique<Started<float>>(parts.back()[as_size(world.rank())]));
    all.back()->start(group);
    EXPECT_EQ(group.all_reduced(1), world.size());
    if ((seed + as_size(world.rank())) % 3 == 0) all.back()->work.wait();
    works.push_back(all.back()->work);
  }
  // In another order on each rank.
  std::rotate(works.begin(), works.begin() + world.rank() % 12, works.end());
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < all.size(); ++i)
    expect_rows(all[i]->result, sum_of(parts[i]), all[i]->mine);
  EXPECT_EQ(group.collective_sequence(), before + 2 * all.size());
  EXPECT_EQ(works.front().type(), OpType::all_gather);
}

RANK_TEST(Sparse, OfDeclaredIndicesWhileOtherCallsAreMade) {
  for (const std::int64_t rows : {3, 4000}) {  // in one round of messages, and in two
    Coo<std::int64_t> mine{.shape = {rows, 2}};
    mine.add({world.rank() % rows}, {1, 2});
    Sizes declared(as_size(static_cast<int>(rows)));
    std::iota(declared.begin(), declared.end(), std::int64_t{0});
    Rows<std::int64_t> wanted;
    for (const std::int64_t row : declared) {
      std::int64_t givers = 0;
      for (int rank = 0; rank < world.size(); ++rank) givers += rank % rows == row ? 1 : 0;
      wanted[{row}] = {givers, 2 * givers};
    }
    Started<std::int64_t> one{mine};
    Started<std::int64_t> other{mine};
    one.start(world.group(), {.declared = declared});
    other.start(world.group(), {.declared = declared});
    declared.assign(declared.size(), -1);  // they were copied
    world.group().barrier();
    std::vector works{other.work, one.work};
    wait_all(works);
    expect_rows(one.result, wanted, mine);
    expect_rows(other.result, wanted, mine);
  }
}

/// Blocking on ranks whose number has this parity, by a Work on the others.
template <class T>
SparseTensor reduced_either_way(World& world, Coo<T>& mine, int parity,
                                const SparseOptions& options) {
  if (world.rank() % 2 == parity) return all_reduce_sparse(world.group(), mine.view(), options);
  Started<T> started{mine};
  started.start(world.group(), options);
  started.work.wait();
  return std::move(started.result);
}

RANK_TEST(Sparse, RanksMayWaitAtOnceOrLater) {
  for (const int parity : {0, 1}) {
    SCOPED_TRACE(parity);
    Dice dice(static_cast<std::uint64_t>(parity) + 40);
    auto parts = random_parts<double>(dice, world.size());
    Coo<double>& mine = parts[as_size(world.rank())];
    expect_rows(reduced_either_way(world, mine, parity, {}), sum_of(parts), mine);

    Coo<std::int64_t> one{.shape = {3, 1}};
    one.add({1}, {world.rank() + 1});
    const Sizes declared{2, 1};
    const std::int64_t sum = std::int64_t{world.size()} * (world.size() + 1) / 2;
    expect_rows(reduced_either_way(world, one, parity, {.declared = declared}),
                {{{1}, {sum}}, {{2}, {0}}}, one);
  }
  EXPECT_EQ(world.group().all_reduced(1), world.size());
}

RANK_TEST(Sparse, WhatIsWrongIsToldToThoseWhoWaitAtOnceOrLater) {
  NEEDS_RANKS(2);
  const Sizes beyond{7};
  for (const int parity : {0, 1}) {
    Coo<float> mine{.shape = {5}};
    mine.add({2}, {1});
    SparseView tensor = mine.view();
    if (world.rank() == 0) tensor.indices = beyond;
    const auto call = [&] {
      SparseTensor result;
      if (world.rank() % 2 == parity)
        all_reduce_sparse(world.group(), tensor);
      else
        all_reduce_sparse_async(world.group(), tensor, result).wait();
    };
    expect_error(ErrorKind::usage, call, {"rank 0: index 7 of entry 0", "all_reduce_sparse"});
  }
  EXPECT_FALSE(world.group().is_aborted());
}

RANK_TEST(Sparse, TheResultMayBeWhatIsReduced) {
  Coo<std::int64_t> mine{.shape = {4, 2}};
  mine.add({3}, {5, world.rank()});
  SparseTensor sum = all_reduce_sparse(world.group(), mine.view());
  const std::int64_t ranks = world.size();
  const std::int64_t of_ranks = ranks * (ranks - 1) / 2;
  sum = all_reduce_sparse(world.group(), sum.view());
  expect_rows(sum, {{{3}, {5 * ranks * ranks, of_ranks * ranks}}}, mine);
  all_reduce_sparse_async(world.group(), sum.view(), sum).wait();
  expect_rows(sum, {{{3}, {5 * ranks * ranks * ranks, of_ranks * ranks * ranks}}}, mine);
}

RANK_TEST(Sparse, TheGroupsEndWaitsForIt) {
  ProcessGroup group = fresh_group(world);
  Coo<std::int32_t> mine{.shape = {2}};
  mine.add({1}, {1});
  Started<std::int32_t> started{mine};
  started.start(group);
  group.destroy();
  EXPECT_TRUE(started.work.is_completed());
  expect_rows(started.result, {{{1}, {world.size()}}}, mine);
}

// What ranks tell each other is not the user's.
RANK_TEST(Sparse, TheWorkShowsNoBuffers) {
  Coo<std::int32_t> mine{.shape = {4}};
  Started<std::int32_t> started{mine};
  started.start(world.group());
  auto future = started.work.get_future();
  started.work.wait();
  EXPECT_TRUE(started.work.result().empty());
  EXPECT_TRUE(future.get().empty());
}

RANK_TEST(Sparse, OutsideOfTheGroupTheWorkIsEmpty) {
  ProcessGroup group = world.new_group({0});
  Coo<std::int32_t> mine{.shape = {4}};
  mine.add({3}, {7});
  Started<std::int32_t> started{mine};
  started.start(group);
  started.work.wait();
  EXPECT_EQ(started.result.entries(), group.is_member() ? 1u : 0u);
}

RANK_TEST(Sparse, WhoDoesNotComeIsNamedAtTheLimit) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  Coo<std::int32_t> mine{.shape = {4}};
  Started<std::int32_t> started{mine};
  if (world.rank() != 0) {
    started.start(group, {.timeout = std::chrono::milliseconds(300)});
    expect_error(ErrorKind::timeout, [&] { started.work.wait(std::chrono::milliseconds(20)); },
                 {"all_gather", "missing: rank 0"});
    // Of the limit, or of another rank that has reached it before.
    const std::string text = error_text([&] { started.work.wait(); });
    EXPECT_NE(text.find("missing: rank 0"), std::string::npos) << text;
    EXPECT_TRUE(group.is_aborted());
  }
  world.group().barrier();
}

// Rank 1 has told of its tensor, and does nothing more: the others know of it, and wait for the
// rest.
RANK_TEST(Sparse, TheGroupIsAbortedWhileTheRestIsOnItsWay) {
  NEEDS_RANKS(2);
  const Sizes declared{1, 2};
  for (const SparseOptions& options : {SparseOptions{}, SparseOptions{.declared = declared}}) {
    ProcessGroup group = fresh_group(world);
    Coo<std::int32_t> mine{.shape = {4}};
    mine.add({1}, {1});
    Started<std::int32_t> started{mine};
    started.start(group, options);
    const auto wait = [&] { started.work.wait(); };
    if (world.rank() == 0) {
      expect_error(ErrorKind::timeout, [&] { started.work.wait(std::chrono::milliseconds(50)); });
      group.abort("enough is enough");
      expect_error(ErrorKind::aborted, wait, {"enough is enough"});
      EXPECT_EQ(started.result.entries(), 0u);
    } else {
      if (world.rank() == 1) {
        EXPECT_TRUE(is_aborted_within(group, at_once));
      }
      // What rank 1 sends in its last step may be all that was missing.
      (void)error_text(wait);
      EXPECT_TRUE(started.work.is_completed());
    }
    world.group().barrier();
  }
}

// --- What goes wrong: everybody hears of it, and the group goes on

void expect_sparse_works(World& world) {
  Coo<std::int32_t> mine{.shape = {2}};
  mine.add({1}, {1});
  expect_rows(all_reduce_sparse(world.group(), mine.view()), {{{1}, {world.size()}}}, mine);
}

/// That a call of rank `bad` is refused, as all ranks hear.
void expect_blame(World& world, int bad, ErrorKind kind, Words words,
                  const std::function<void()>& call, std::source_location where) {
  const std::string text = expect_error(kind, call, words, where);
  EXPECT_NE(text.find("rank " + std::to_string(bad) + ": "), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce_sparse"), std::string::npos) << text;
  EXPECT_NE(text.find("default_pg"), std::string::npos) << text;
  EXPECT_FALSE(world.group().is_aborted());
  expect_sparse_works(world);
}

/// What rank `bad` does is refused on all ranks, whether they wait at once or later.
void expect_blamed(World& world, int bad, ErrorKind kind, Words words, const SparseView& tensor,
                   const SparseOptions& options = {},
                   std::source_location where = std::source_location::current()) {
  const auto call = [&] { all_reduce_sparse(world.group(), tensor, options); };
  expect_blame(world, bad, kind, words, call, where);
  SparseTensor result;
  Work work = all_reduce_sparse_async(world.group(), tensor, result, options);
  expect_sparse_works(world);
  expect_blame(world, bad, kind, words, [&] { work.wait(); }, where);
  EXPECT_EQ(result.entries(), 0u);
}

/// A sound tensor, but for what `spoil` does to it on the last rank.
void expect_last_blamed(World& world, ErrorKind kind, Words words,
                        const std::function<void(SparseView&)>& spoil,
                        std::source_location where = std::source_location::current()) {
  Coo<float> mine{.shape = {5, 4, 2}, .sparse_dims = 2};
  mine.add({1, 2}, {1, 2});
  mine.add({4, 3}, {3, 4});
  SparseView tensor = mine.view();
  const int last = world.size() - 1;
  if (world.rank() == last) spoil(tensor);
  expect_blamed(world, last, kind, words, tensor, {}, where);
}

RANK_TEST(Sparse, WrongTensorsAreNamedOnAllRanks) {
  constexpr ErrorKind usage = ErrorKind::usage;
  const Sizes beyond{1, 4, 2, 4};
  expect_last_blamed(world, usage, {"index 4 of entry 1 is not in dimension 1, which has size 4"},
                     [&](SparseView& tensor) { tensor.indices = beyond; });
  const Sizes below{-1, 4, 2, 3};
  expect_last_blamed(world, usage, {"index -1 of entry 0 is not in dimension 0"},
                     [&](SparseView& tensor) { tensor.indices = below; });
  expect_last_blamed(world, usage, {"3 numbers of indices", "2 sparse dimensions"},
                     [](SparseView& tensor) { tensor.indices = tensor.indices.first(3); });
  expect_last_blamed(world, usage, {"3 values for 2 entries of 2 each"},
                     [](SparseView& tensor) { tensor.values.count = 3; });
  expect_last_blamed(world, usage, {"null"},
                     [](SparseView& tensor) { tensor.values.data = nullptr; });
  expect_last_blamed(world, usage, {"0 sparse dimensions"},
                     [](SparseView& tensor) { tensor.sparse_dims = 0; });
  expect_last_blamed(world, usage, {"4 sparse dimensions, where the shape [5, 4, 2] has 3"},
                     [](SparseView& tensor) { tensor.sparse_dims = 4; });
  const Sizes huge{std::int64_t{1} << 40, std::int64_t{1} << 40, 2};
  expect_last_blamed(world, usage, {"more than 2^63 - 1 elements"},
                     [&](SparseView& tensor) { tensor.shape = huge; });
  const Sizes negative{5, -4, 2};
  expect_last_blamed(world, usage, {"below 0"},
                     [&](SparseView& tensor) { tensor.shape = negative; });
  const Sizes strides{1, 2};
  const Sizes block{2, 2};
  expect_last_blamed(world, usage, {"strides"}, [&](SparseView& tensor) {
    tensor.values.shape = block;
    tensor.values.strides = strides;
  });
  expect_last_blamed(world, ErrorKind::unsupported,
                     {"float8_e5m2 values are moved but never reduced"},
                     [](SparseView& tensor) { tensor.values.dtype = DataType::float8_e5m2; });
}

RANK_TEST(Sparse, TensorsThatDifferAreNamedOnAllRanks) {
  NEEDS_RANKS(2);
  constexpr ErrorKind usage = ErrorKind::usage;
  std::vector<double> doubles(4);
  expect_last_blamed(world, usage, {"sparse tensors differ", "float32 [5, 4, 2]", "float64"},
                     [&](SparseView& tensor) { tensor.values = doubles; });
  const Sizes wider{5, 4, 3};
  std::vector<float> more(6);
  expect_last_blamed(world, usage, {"differ", "[5, 4, 3] with 2 sparse dimensions, sum"},
                     [&](SparseView& tensor) {
                       tensor.shape = wider;
                       tensor.values = more;
                     });
  const Sizes longer{6, 4, 2};
  expect_last_blamed(world, usage, {"differ", "[6, 4, 2]"},
                     [&](SparseView& tensor) { tensor.shape = longer; });
  std::vector<float> eight(16);
  const Sizes one{1, 4};
  expect_last_blamed(world, usage, {"with 1 sparse dimension, sum"}, [&](SparseView& tensor) {
    tensor.sparse_dims = 1;
    tensor.indices = one;
    tensor.values = eight;
  });
}

RANK_TEST(Sparse, OptionsThatDifferAreNamedOnAllRanks) {
  NEEDS_RANKS(2);
  const int last = world.size() - 1;
  Coo<float> mine{.shape = {5}};
  mine.add({2}, {1});
  const Sizes few{2, 3};
  const Sizes other{2, 4};
  const auto blamed = [&](const SparseOptions& here, const SparseOptions& there, Words words) {
    expect_blamed(world, last, ErrorKind::usage, words, mine.view(),
                  world.rank() == last ? there : here);
  };
  blamed({}, {.reduction = ReduceOp::max}, {"sum", "max"});
  blamed({.declared = few}, {.declared = other}, {"2 declared indices ("});
  blamed({}, {.declared = few}, {"differ", "2 declared indices"});
}

RANK_TEST(Sparse, WrongDeclarationsAreNamedOnAllRanks) {
  const int last = world.size() - 1;
  Coo<float> mine{.shape = {5, 3}, .sparse_dims = 2};
  mine.add({2, 1}, {1});
  if (world.rank() == last) mine.add({4, 2}, {1});
  const Sizes right{2, 4, 1, 2};
  const Sizes lacking{2, 3, 1, 2};
  expect_blamed(world, last, ErrorKind::usage,
                {"index [4, 2] of entry 1 is not among the 2 that are declared"}, mine.view(),
                {.declared = lacking});
  const Sizes twice{2, 4, 2, 1, 2, 1};
  expect_blamed(world, last, ErrorKind::usage, {"index [2, 1] is declared twice"}, mine.view(),
                {.declared = world.rank() == last ? twice : right});
  const Sizes beyond{2, 5, 1, 2};
  expect_blamed(world, last, ErrorKind::usage,
                {"declared index 5 of entry 1 is not in dimension 0"}, mine.view(),
                {.declared = world.rank() == last ? beyond : right});
}

RANK_TEST(Sparse, ReductionsWithoutSenseAreRefused) {
  Coo<float> mine{.shape = {5}};
  const auto refused = [&](const ReduceOp& op, Words words) {
    expect_error(
        ErrorKind::unsupported,
        [&] { all_reduce_sparse(world.group(), mine.view(), {.reduction = op}); }, words);
    expect_sparse_works(world);
  };
  refused(ReduceOp::premul_sum(2.0), {"premul_sum", "multiply the values", "all_reduce_sparse"});
  refused(reduce_by<float>([](float a, float) { return a; }), {"hymn's own reductions"});
  refused(ReduceOp::band, {"band", "float32"});
}

RANK_TEST(Sparse, InACoalescingScopeItIsRefused) {
  Coo<float> mine{.shape = {5}};
  {
    CoalescingScope scope(world.group());
    expect_error(ErrorKind::usage, [&] { all_reduce_sparse(world.group(), mine.view()); },
                 {"all_reduce_sparse"});
    Started<float> started{mine};
    expect_error(ErrorKind::usage, [&] { started.start(world.group()); }, {"all_reduce_sparse"});
  }
  expect_sparse_works(world);
}

RANK_TEST(Sparse, ANaNIsToldToAllRanks) {
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  Coo<float> mine{.shape = {5}};
  mine.add({2}, {world.rank() == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0f});
  const Words words{"rank 0: value 0 of the 1 values of float32 is a NaN", "HYMN_NAN_CHECK"};
  expect_error(ErrorKind::usage, [&] { all_reduce_sparse(group, mine.view()); }, words);
  Started<float> started{mine};
  started.start(group);
  expect_error(ErrorKind::usage, [&] { started.work.wait(); }, words);
  EXPECT_FALSE(group.is_aborted());
}

// inf - inf: what the rank gave has no NaN, and what comes of it is not looked at.
RANK_TEST(Sparse, ANaNThatComesOfTheSumIsSent) {
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Coo<float> mine{.shape = {5}};
  mine.add({2}, {world.rank() == 0 ? infinity : 1.0f});
  mine.add({2}, {world.rank() == 0 ? -infinity : 1.0f});
  const Sizes declared{2};
  const SparseOptions options{.declared = declared};
  EXPECT_TRUE(std::isnan(all_reduce_sparse(group, mine.view(), options).values_as<float>()[0]));
  Started<float> started{mine};
  started.start(group, options);
  started.work.wait();
  EXPECT_TRUE(std::isnan(started.result.values_as<float>()[0]));
}

RANK_TEST(Sparse, AnotherCallIsNotTakenForIt) {
  NEEDS_RANKS(2);
  // As many bytes as a rank tells of itself, but no more than that is meant for this call.
  std::vector<std::uint8_t> bytes(352, 7);
  std::vector<std::uint8_t> all(bytes.size() * ranks_as_size(world));
  Coo<float> mine{.shape = {5}};
  if (world.rank() == 1)
    world.group().all_gather(bytes, all);
  else
    expect_error(ErrorKind::peer, [&] { all_reduce_sparse(world.group(), mine.view()); },
                 {"what rank 1 has sent does not belong to this call"});
  expect_sparse_works(world);
}

RANK_TEST(Sparse, WhoHasRunOutOfInputGivesNoTensor) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  Coo<float> mine{.shape = {5}};
  Join::shadow_all({group}, [&] {
    if (world.rank() != 0) return;
    expect_error(ErrorKind::peer, [&] { all_reduce_sparse(group, mine.view()); },
                 {"what rank 1 has sent does not belong to this call"});
  });
  EXPECT_FALSE(group.is_aborted());
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
