// How an all_reduce over several hosts is cut between the ranks of a host.
#include "collectives/cuda/host_shares.hpp"

#include <gtest/gtest.h>

namespace hymn::test {
namespace {

constexpr std::size_t unit = HostShares::block_unit;

TEST(HostShares, CoverEverythingOnceAndFitIntoASlot) {
  for (const int ranks : {2, 3, 8, 16})
    for (const std::size_t slot : {std::size_t{1} << 10, (std::size_t{1} << 12) + 7 * unit})
      for (std::size_t bytes = 0; bytes < 10000; bytes += 34) {
        const HostShares shares(bytes, ranks, slot);
        std::size_t covered = 0;
        for (std::size_t i = 0; i < shares.pieces(); ++i) {
          const HostShares::Part piece = shares.piece(i);
          EXPECT_EQ(piece.offset, covered);
          EXPECT_LE(piece.bytes, slot);
          for (int rank = 0; rank < ranks; ++rank) {
            const HostShares::Part block = shares.block(i, rank);
            ASSERT_EQ(block.offset, covered);
            ASSERT_GT(block.bytes, 0u);
            ASSERT_EQ(block.bytes % unit, 0u);
            covered += block.bytes;
          }
          EXPECT_EQ(piece.offset + piece.bytes, covered);
        }
        ASSERT_EQ(shares.tail().offset, covered);
        ASSERT_LT(shares.tail().bytes, unit * static_cast<std::size_t>(ranks));
        ASSERT_EQ(covered + shares.tail().bytes, bytes);
      }
}

TEST(HostShares, PiecesAreAsLargeAsTheyCanBe) {
  const HostShares shares(3000, 4, 1024);
  EXPECT_EQ(shares.pieces(), 3u);
  EXPECT_EQ(shares.piece(0).bytes, 1024u);
  EXPECT_EQ(shares.piece(2).bytes, 896u);
  EXPECT_EQ(shares.tail().bytes, 3000u - 2944u);
}

}  // namespace
}  // namespace hymn::test
