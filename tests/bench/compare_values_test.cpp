// What the drivers of bench/compare put into their buffers, and that they see wrong results.
#include <gtest/gtest.h>

#include "bench/compare/data.h"

namespace hymn::test {
namespace {

constexpr int most_ranks = 64;

/// A driver's buffers, as for a command of compare.py, without a library.
class Block {
 public:
  Block(int rank, int ranks, std::uint64_t bytes, std::uint32_t collective = collective_all_reduce,
        bool in_place = false) {
    driver.rank = rank;
    driver.ranks = ranks;
    driver.offset = 16;
    Command command{};
    command.collective = collective;
    command.in_place = in_place ? 1 : 0;
    command.bytes = bytes;
    prepare(&driver, &buffers, &command);
    buffers.first = buffers.last = 1;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { munmap(buffers.memory, buffers.memory_bytes); }

  float* in() { return reinterpret_cast<float*>(buffers.in); }
  float* out() {
    return reinterpret_cast<float*>(is_in_place(&buffers.command) ? buffers.in : buffers.out);
  }
  void write_right_result() {
    for (std::size_t i = 0; i < buffers.shape.out; ++i) out()[i] = expected(&driver, &buffers, i);
  }
  bool looks_right() {
    char text[128] = "";
    return is_right(&driver, &buffers, text, sizeof text) != 0;
  }

  Driver driver{};
  Buffers buffers{};
};

float sum_of(int ranks, std::size_t index, std::uint64_t stamp) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += ::value_of(rank, index, stamp);
  return sum;
}

TEST(CompareValues, SumsDifferFromCallToCallAndFromPlaceToPlace) {
  for (int ranks = 2; ranks <= most_ranks; ++ranks)
    for (std::size_t index = 0; index < 512; ++index)
      for (std::size_t apart = 1; apart <= 4096; apart *= 2) {
        const float sum = sum_of(ranks, index, 7);
        EXPECT_NE(sum, sum_of(ranks, index, 7 + apart)) << ranks << " ranks, element " << index;
        EXPECT_NE(sum, sum_of(ranks, index + apart, 7)) << ranks << " ranks, element " << index;
      }
}

TEST(CompareValues, SumsAreExact) {
  EXPECT_LT((std::uint64_t{1} << value_bits) * most_ranks, std::uint64_t{1} << 24);
  for (int rank = 0; rank < most_ranks; ++rank)
    for (std::size_t index = 0; index < 4096; ++index) {
      const float value = ::value_of(rank, index, 1);
      EXPECT_EQ(value, static_cast<float>(static_cast<int>(value)));
      EXPECT_GE(value, 0);
      EXPECT_LT(value, 1 << value_bits);
    }
}

TEST(CompareValues, NoTwoRanksGiveTheSame) {
  for (int rank = 0; rank < most_ranks; ++rank)
    for (int other = 0; other < rank; ++other)
      for (std::size_t index = 0; index < 64; ++index)
        EXPECT_NE(::value_of(rank, index, 1), ::value_of(other, index, 1)) << rank << " " << other;
}

TEST(CompareValues, InputsAreWhatResultsAreMadeFrom) {
  for (const bool in_place : {false, true}) {
    Block block(3, 4, 4096, collective_all_reduce, in_place);
    ASSERT_TRUE(block.buffers.alter);
    write_input(&block.driver, &block.buffers, 0);
    alter_input(&block.driver, &block.buffers, block.in(), ++block.buffers.last);
    for (std::size_t i = 0; i < block.buffers.shape.in; ++i)
      EXPECT_EQ(block.in()[i], given(&block.buffers, 3, i)) << i;
  }
  Block large(3, 4, 256 << 10);
  ASSERT_FALSE(large.buffers.alter);
  write_input(&large.driver, &large.buffers, 0);
  for (std::size_t i = 0; i < large.buffers.shape.in; ++i)
    EXPECT_EQ(large.in()[i], given(&large.buffers, 3, i)) << i;
}

// One element, a row of calls with one new element in 64, and whole new inputs each time.
TEST(CompareValues, TheResultOfTheCallBeforeIsSeen) {
  for (int ranks = 2; ranks <= most_ranks; ++ranks)
    for (const std::uint64_t bytes : {4, 4096, 128 << 10})
      for (const bool in_place : {false, true}) {
        Block block(0, ranks, bytes, collective_all_reduce, in_place);
        block.write_right_result();
        EXPECT_TRUE(block.looks_right());
        ++block.buffers.last;
        if (!block.buffers.alter) block.buffers.first = block.buffers.last;
        EXPECT_FALSE(block.looks_right()) << ranks << " ranks, " << bytes << " bytes";
      }
}

TEST(CompareValues, AMissingAndADoubleRankAreSeen) {
  for (int ranks = 2; ranks <= most_ranks; ++ranks)
    for (int missing = 0; missing < ranks; ++missing) {
      Block block(0, ranks, 4096);
      block.write_right_result();
      const int twice = (missing + 1) % ranks;
      for (std::size_t i = 0; i < block.buffers.shape.out; ++i)
        block.out()[i] += given(&block.buffers, twice, i) - given(&block.buffers, missing, i);
      EXPECT_FALSE(block.looks_right()) << ranks << " ranks, without " << missing;
    }
}

TEST(CompareValues, TheBlockOfAnotherRankIsSeen) {
  for (const std::uint32_t collective :
       {collective_scatter, collective_reduce_scatter, collective_all_to_all})
    for (int ranks = 2; ranks <= most_ranks; ranks *= 2) {
      Block mine(0, ranks, 256 << 10, collective);
      Block other(1, ranks, 256 << 10, collective);
      mine.write_right_result();
      other.write_right_result();
      memcpy(mine.out(), other.out(), mine.buffers.shape.out * sizeof(float));
      EXPECT_FALSE(mine.looks_right()) << "collective " << collective << ", " << ranks << " ranks";
    }
}

}  // namespace
}  // namespace hymn::test
