// all_reduce of sparse tensors as Works, among other calls.
#include <numeric>
#include <vector>

#include "tests/ranks/sparse_tensors.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

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
    if (world.rank() == 0) {
      expect_error(ErrorKind::timeout, [&] { started.work.wait(std::chrono::milliseconds(50)); });
      group.abort("enough is enough");
    } else if (world.rank() == 1) {
      EXPECT_TRUE(is_aborted_within(group, at_once));
    }
    // What rank 1 sends in its last step may be all that was missing.
    const std::string text = error_text([&] { started.work.wait(); });
    EXPECT_TRUE(started.work.is_completed());
    if (text.empty())
      EXPECT_EQ(started.result.entries(), options.declared.empty() ? 1u : 2u);
    else
      EXPECT_EQ(started.result.entries(), 0u) << text;
    if (world.rank() == 0 && !text.empty()) {
      EXPECT_NE(text.find("enough is enough"), std::string::npos) << text;
    }
    world.group().barrier();
  }
}

}  // namespace
}  // namespace hymn::test
