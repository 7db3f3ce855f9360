// What goes wrong with a sparse tensor: everybody hears of it, and the group goes on.
#include <cmath>
#include <limits>
#include <vector>

#include "hymn/coalesce.hpp"
#include "hymn/values.hpp"
#include "tests/ranks/sparse_tensors.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

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

}  // namespace
}  // namespace hymn::test
