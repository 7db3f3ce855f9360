// all_to_all: equal blocks, given splits with zeros, and lists.
#include <algorithm>
#include <numeric>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

/// How much `from` sends to `to`: zero for some pairs, and not symmetric.
std::size_t split(int from, int to) { return as_size((from * 3 + to * 5) % 4 * 7); }

std::vector<std::size_t> sends_of(int rank, int ranks) {
  std::vector<std::size_t> counts;
  for (int to = 0; to < ranks; ++to) counts.push_back(split(rank, to));
  return counts;
}

std::vector<std::size_t> receives_of(int rank, int ranks) {
  std::vector<std::size_t> counts;
  for (int from = 0; from < ranks; ++from) counts.push_back(split(from, rank));
  return counts;
}

void check_equal_blocks(World& world, DataType dtype, std::size_t each) {
  SCOPED_TRACE(std::string(to_string(dtype)) + " x " + std::to_string(each));
  BlockBuffer in(dtype, world.size(), each);
  BlockBuffer out(dtype, world.size(), each);
  in.fill_for_each(world.rank());
  world.group().all_to_all(in.view(), out.view());
  out.expect_from_all(world.rank());
}

RANK_TEST(AllToAll, EveryDtype) {
  for (const DataType dtype : all_dtypes()) check_equal_blocks(world, dtype, 19);
}

RANK_TEST(AllToAll, EveryCount) {
  for (const std::size_t each : every_count) check_equal_blocks(world, DataType::int32, each);
}

RANK_TEST(AllToAll, InPlace) {
  BlockBuffer blocks(DataType::int64, world.size(), 65);
  blocks.fill_for_each(world.rank());
  world.group().all_to_all(blocks.view(), blocks.view());
  blocks.expect_from_all(world.rank());
}

RANK_TEST(AllToAll, GivenSplitsOfEveryDtype) {
  for (const DataType dtype : all_dtypes()) {
    BlockBuffer in(dtype, sends_of(world.rank(), world.size()));
    BlockBuffer out(dtype, receives_of(world.rank(), world.size()));
    in.fill_for_each(world.rank());
    world.group().all_to_all(in.view(), in.counts(), out.view(), out.counts());
    out.expect_from_all(world.rank());
  }
}

RANK_TEST(AllToAll, Lists) {
  ListBuffer in(DataType::float32, sends_of(world.rank(), world.size()));
  ListBuffer out(DataType::float32, receives_of(world.rank(), world.size()));
  in.fill_for_each(world.rank());
  world.group().all_to_all(in.const_views(), out.views());
  out.expect_from_all(world.rank());
}

RANK_TEST(AllToAll, NothingForAnybody) {
  const std::vector<std::size_t> zeros(ranks_as_size(world), 0);
  world.group().all_to_all(ConstBufferView(), zeros, BufferView(), zeros);
  world.group().all_to_all(ConstBufferView(), BufferView());
  ListBuffer in(DataType::int8, zeros);
  ListBuffer out(DataType::int8, zeros);
  world.group().all_to_all(in.const_views(), out.views());
  world.group().barrier();
}

RANK_TEST(AllToAll, OnlyOneSends) {
  for (int giver = 0; giver < world.size(); ++giver) {
    std::vector<std::size_t> sends(ranks_as_size(world), world.rank() == giver ? 5 : 0);
    std::vector<std::size_t> receives(ranks_as_size(world), 0);
    receives[as_size(giver)] = 5;
    BlockBuffer in(DataType::uint32, sends);
    BlockBuffer out(DataType::uint32, receives);
    in.fill_for_each(world.rank());
    world.group().all_to_all(in.view(), sends, out.view(), receives);
    out.expect_from_all(world.rank());
  }
}

using Numbers = std::vector<std::int64_t>;

/// Rows of two, one for each rank: row i of the result comes from rank i.
void check_rows_of_two(World& world, void (*exchange)(ProcessGroup&, const Numbers&, Numbers&)) {
  const Numbers in(2 * ranks_as_size(world), world.rank());
  Numbers expected;
  for (int rank = 0; rank < world.size(); ++rank) expected.insert(expected.end(), 2, rank);
  Numbers out(in.size());
  exchange(world.group(), in, out);
  EXPECT_EQ(out, expected);
}

RANK_TEST(AllToAll, test_all_to_all_single_none) {
  check_rows_of_two(world, [](ProcessGroup& group, const Numbers& in, Numbers& out) {
    group.all_to_all(in, out);
  });
}

RANK_TEST(AllToAll, test_all_to_all_single_list) {
  check_rows_of_two(world, [](ProcessGroup& group, const Numbers& in, Numbers& out) {
    const std::vector<std::size_t> sizes(as_size(group.size()), 2);
    group.all_to_all(in, sizes, out, sizes);
  });
}

// Sizes that were computed, in a buffer.
RANK_TEST(AllToAll, test_all_to_all_single_tensor) {
  check_rows_of_two(world, [](ProcessGroup& group, const Numbers& in, Numbers& out) {
    std::vector<std::uint64_t> sizes(as_size(group.size()), group.rank() == 0 ? 2 : 0);
    group.all_reduce(sizes);
    group.all_to_all(in, sizes, out, sizes);
  });
}

RANK_TEST(AllToAll, test_all_to_all) {
  const int ranks = world.size();
  std::vector<std::vector<float>> in;
  for (int to = 0; to < ranks; ++to)
    in.emplace_back(9, static_cast<float>(world.rank() * ranks + to));
  std::vector<std::vector<float>> out(in.size(), std::vector<float>(9));
  const std::vector<ConstBufferView> inputs(in.begin(), in.end());
  const std::vector<BufferView> outputs(out.begin(), out.end());
  world.group().all_to_all(inputs, outputs);
  for (int from = 0; from < ranks; ++from)
    EXPECT_EQ(out[as_size(from)], std::vector(9, static_cast<float>(from * ranks + world.rank())));
}

}  // namespace
}  // namespace hymn::test
