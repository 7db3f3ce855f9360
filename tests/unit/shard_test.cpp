// Every index goes to somebody, whatever the numbers.
#include "hymn/shard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <ranges>
#include <thread>
#include <vector>

#include "hymn/chunk_queue.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Indices = std::vector<std::size_t>;

static_assert(std::ranges::random_access_range<Shard>);
static_assert(std::ranges::sized_range<Shard>);
static_assert(std::ranges::view<Shard>);

constexpr std::size_t counts[] = {0, 1, 2, 3, 5, 6, 7, 8, 64, 101, 1797};
constexpr int sizes[] = {1, 2, 3, 4, 7, 13};

Indices indices(const Shard& shard) { return {shard.begin(), shard.end()}; }

Indices all_of(IndexRange range) {
  Indices all(range.size());
  std::iota(all.begin(), all.end(), range.begin);
  return all;
}

/// What all ranks have, rank after rank.
Indices of_all_ranks(IndexRange range, int size, const ShardPolicy& policy) {
  Indices all;
  for (int rank = 0; rank < size; ++rank)
    std::ranges::copy(shard(range, rank, size, policy), std::back_inserter(all));
  return all;
}

/// Each of these, once, is what the ranks have between them.
void expect_all_once(IndexRange range, int size, const ShardPolicy& policy) {
  Indices all = of_all_ranks(range, size, policy);
  std::ranges::sort(all);
  EXPECT_EQ(all, all_of(range)) << range.size() << " indices, " << size << " ranks";
}

TEST(Shard, BlocksAreNeighbours) {
  EXPECT_THAT(indices(shard({0, 7}, 0, 3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(indices(shard({0, 7}, 1, 3)), ElementsAre(3, 4));
  EXPECT_THAT(indices(shard({0, 7}, 2, 3)), ElementsAre(5, 6));
}

TEST(Shard, CyclicDealsInTurn) {
  const ShardPolicy cyclic{.form = ShardForm::cyclic};
  EXPECT_THAT(indices(shard({10, 17}, 0, 3, cyclic)), ElementsAre(10, 13, 16));
  EXPECT_THAT(indices(shard({10, 17}, 1, 3, cyclic)), ElementsAre(11, 14));
  EXPECT_THAT(indices(shard({10, 17}, 2, 3, cyclic)), ElementsAre(12, 15));
}

TEST(Shard, EveryIndexOnce) {
  for (const std::size_t count : counts)
    for (const int size : sizes)
      for (const ShardForm form : {ShardForm::blocks, ShardForm::cyclic}) {
        expect_all_once({0, count}, size, {.form = form});
        expect_all_once({5, 5 + count}, size, {.form = form, .shuffle = 3});
        std::size_t least = count;
        std::size_t most = 0;
        for (int rank = 0; rank < size; ++rank) {
          const std::size_t mine = shard({0, count}, rank, size, {.form = form}).size();
          least = std::min(least, mine);
          most = std::max(most, mine);
        }
        EXPECT_LE(most, least + 1);
      }
}

TEST(Shard, MoreRanksThanIndices) {
  for (const ShardForm form : {ShardForm::blocks, ShardForm::cyclic}) {
    for (int rank = 0; rank < 7; ++rank)
      EXPECT_EQ(shard({0, 3}, rank, 7, {.form = form}).size(), rank < 3 ? 1u : 0u);
    EXPECT_TRUE(shard({0, 0}, 0, 1, {.form = form}).empty());
  }
}

TEST(Shard, DroppedTailsMakeShardsEven) {
  for (const std::size_t count : counts)
    for (const int size : sizes)
      for (const ShardForm form : {ShardForm::blocks, ShardForm::cyclic}) {
        const ShardPolicy policy{.form = form, .tail = ShardTail::drop};
        const std::size_t each = count / static_cast<std::size_t>(size);
        for (int rank = 0; rank < size; ++rank)
          EXPECT_EQ(shard({0, count}, rank, size, policy).size(), each);
        Indices all = of_all_ranks({0, count}, size, policy);
        std::ranges::sort(all);
        EXPECT_EQ(all, all_of({0, each * static_cast<std::size_t>(size)}));
      }
}

TEST(Shard, RepeatedTailsMakeShardsEven) {
  for (const std::size_t count : counts)
    for (const int size : sizes)
      for (const ShardForm form : {ShardForm::blocks, ShardForm::cyclic}) {
        const ShardPolicy policy{.form = form, .tail = ShardTail::repeat};
        const auto ranks = static_cast<std::size_t>(size);
        const std::size_t each = (count + ranks - 1) / ranks;
        Indices expected = all_of({0, count});
        for (std::size_t i = 0; i < each * ranks - count; ++i) expected.push_back(i % count);
        std::ranges::sort(expected);
        for (int rank = 0; rank < size; ++rank)
          EXPECT_EQ(shard({0, count}, rank, size, policy).size(), each);
        Indices all = of_all_ranks({0, count}, size, policy);
        std::ranges::sort(all);
        EXPECT_EQ(all, expected) << count << " indices, " << size << " ranks";
      }
  // As many as there are again, and some.
  EXPECT_THAT(indices(shard({0, 2}, 4, 5, {.tail = ShardTail::repeat})), ElementsAre(0));
}

TEST(Shard, WeightsAreSharesOfTheWhole) {
  const std::vector<double> weights = {4, 0, 1, 2.5};
  const std::size_t expected[] = {4, 0, 1, 3};  // of 8: 4.27, 0, 1.07, 2.67
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(shard({0, 8}, rank, 4, {.weights = weights}).size(), expected[rank]) << rank;
  for (const std::size_t count : counts)
    for (const int size : sizes) {
      std::vector<double> shares;
      for (int rank = 0; rank < size; ++rank) shares.push_back(0.1 * (rank * 7 % 5) + 1e-9);
      shares.back() = 0;
      if (size == 1) shares.back() = 1e-300;
      const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
      expect_all_once({0, count}, size, {.weights = shares});
      expect_all_once({3, 3 + count}, size, {.weights = shares, .shuffle = 99});
      for (int rank = 0; rank < size; ++rank) {
        const double share = shares[static_cast<std::size_t>(rank)] / sum;
        const auto mine =
            static_cast<double>(shard({0, count}, rank, size, {.weights = shares}).size());
        EXPECT_LT(std::abs(mine - share * static_cast<double>(count)), 1.0 + 1e-6);
      }
    }
}

TEST(Shard, ShufflesBySeedAlone) {
  const auto order = [](std::uint64_t seed) {
    return indices(shard({0, 1000}, 0, 1, {.shuffle = seed}));
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  // A shuffled order has few that are followed by their neighbours: about one.
  const Indices shuffled = order(1);
  int neighbours = 0;
  for (std::size_t i = 1; i < shuffled.size(); ++i)
    neighbours += shuffled[i] == shuffled[i - 1] + 1;
  EXPECT_LT(neighbours, 10);
  // Positions and indices go together no more than by chance: about 0.03 for so many.
  double covariance = 0;
  for (std::size_t i = 0; i < shuffled.size(); ++i)
    covariance += (static_cast<double>(i) - 499.5) * (static_cast<double>(shuffled[i]) - 499.5);
  EXPECT_LT(std::abs(covariance / (1000.0 * 1000 * 1000 / 12)), 0.15);
}

TEST(Shard, ShufflesRangesOfAnySize) {
  for (std::size_t count = 0; count < 70; ++count)
    expect_all_once({0, count}, 3, {.shuffle = count});
  // All six orders of three are drawn by some seed.
  std::vector<Indices> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    orders.push_back(indices(shard({0, 3}, 0, 1, {.shuffle = seed})));
  std::ranges::sort(orders);
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Shard, IsARange) {
  const Shard mine = shard({0, 20}, 1, 3, {.form = ShardForm::cyclic});
  EXPECT_EQ(mine.size(), 7u);
  EXPECT_EQ(mine.end() - mine.begin(), 7);
  EXPECT_EQ(mine.begin()[2], 7u);
  EXPECT_EQ(*(mine.end() - 1), 19u);
  EXPECT_TRUE(std::ranges::binary_search(mine, 13u));
  Indices doubled;
  for (const std::size_t twice :
       shard({0, 4}, 0, 2) | std::views::transform([](std::size_t i) { return 2 * i; }))
    doubled.push_back(twice);
  EXPECT_THAT(doubled, ElementsAre(0, 2));
  EXPECT_TRUE(Shard().empty());
  EXPECT_EQ(Shard().begin(), Shard().end());
}

TEST(Shard, OfVeryLargeRanges) {
  constexpr std::size_t count = std::size_t{1} << 62;
  EXPECT_EQ(shard({0, count}, 3, 4)[0], count / 4 * 3);
  EXPECT_EQ(shard({0, count}, 3, 4, {.form = ShardForm::cyclic})[count / 4 - 1], count - 1);
  EXPECT_LT((shard({0, count}, 3, 4, {.shuffle = 1})[12345]), count);
  EXPECT_THROW(shard({0, (std::size_t{1} << 63) + 1}, 0, 1), UsageError);
}

TEST(Shard, OfWhateverHasARankAndASize) {
  struct Team {
    int rank() const { return 1; }
    int size() const { return 2; }
  };
  EXPECT_THAT(indices(shard(5, Team{})), ElementsAre(3, 4));
  EXPECT_THAT(indices(shard({10, 15}, Team{}, {.form = ShardForm::cyclic})), ElementsAre(11, 13));
}

template <class Call>
void expect_refused(Call call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
    EXPECT_FALSE(error.context().remedy.empty());
  }
}

TEST(Shard, RefusesWhatCannotBe) {
  expect_refused([] { shard({0, 5}, 2, 2); }, "rank 2 is not one of 2 ranks");
  expect_refused([] { shard({0, 5}, -1, 2); }, "rank -1 is not one of 2 ranks");
  expect_refused([] { shard({0, 5}, 0, 0); }, "rank 0 is not one of 0 ranks");
  expect_refused([] { shard({5, 4}, 0, 1); }, "ends at 4, before it begins at 5");
  const auto weighted = [](std::vector<double> weights, ShardPolicy policy = {}) {
    policy.weights = weights;
    shard({0, 5}, 0, 2, policy);
  };
  expect_refused([&] { weighted({1}); }, "1 weights for 2 ranks");
  expect_refused([&] { weighted({1, 2, 3}); }, "3 weights for 2 ranks");
  expect_refused([&] { weighted({1, -2}); }, "a weight of -2 is not valid");
  expect_refused([&] { weighted({1, std::nan("")}); }, "a weight of nan is not valid");
  expect_refused([&] { weighted({1, std::numeric_limits<double>::infinity()}); },
                 "inf is not valid");
  expect_refused([&] { weighted({0, 0}); }, "the weights add up to 0");
  expect_refused([&] { weighted({1e308, 1e308}); }, "the weights add up to inf");
  expect_refused([&] { weighted({1, 1}, {.form = ShardForm::cyclic}); },
                 "weights can only be given for blocks");
  expect_refused([&] { weighted({1, 1}, {.tail = ShardTail::drop}); },
                 "weights can only be given for blocks");
}

// --- Chunks

TEST(ChunkQueue, HandsOutEachChunkOnce) {
  const auto store = std::make_shared<HashStore>();
  ChunkQueue one(store, "a", {10, 20}, 4);
  ChunkQueue other(store, "a", {10, 20}, 4);
  EXPECT_EQ(one.chunks(), 3u);
  EXPECT_EQ(one.next(), (IndexRange{10, 14}));
  EXPECT_EQ(other.next(), (IndexRange{14, 18}));
  EXPECT_EQ(one.next(), (IndexRange{18, 20}));
  EXPECT_EQ(one.next(), std::nullopt);
  EXPECT_EQ(one.next(), std::nullopt);
  EXPECT_EQ(other.next(), std::nullopt);
  EXPECT_EQ(ChunkQueue(store, "b", {3, 3}, 4).next(), std::nullopt);
  EXPECT_EQ(ChunkQueue(store, "c", {3, 5}, 100).next(), (IndexRange{3, 5}));
}

TEST(ChunkQueue, OfThreadsThatAskAtTheSameTime) {
  const auto store = std::make_shared<HashStore>();
  std::mutex mutex;
  Indices taken;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      ChunkQueue queue(store, "epoch 0", {0, 1000}, 3);
      while (const auto chunk = queue.next()) {
        const std::lock_guard lock(mutex);
        for (std::size_t index = chunk->begin; index < chunk->end; ++index) taken.push_back(index);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(taken);
  EXPECT_EQ(taken, all_of({0, 1000}));
}

TEST(ChunkQueue, RefusesWhatCannotBe) {
  const auto store = std::make_shared<HashStore>();
  expect_refused([] { ChunkQueue(nullptr, "a", {0, 5}, 1); }, "no store");
  expect_refused([&] { ChunkQueue(store, "a", {0, 5}, 0); }, "a chunk has no indices");
  expect_refused([&] { ChunkQueue(store, "a", {5, 4}, 1); }, "ends before it begins");
}

}  // namespace
}  // namespace hymn
