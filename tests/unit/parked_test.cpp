// Which communicators are kept for other groups, and for how long.
#include <gtest/gtest.h>

#include "runtime/mechanisms/parked_communicators.hpp"

namespace hymn::test {
namespace {

const std::vector<int> ranks = {0, 1};

/// Two ranks, of which this is what each has parked.
class Parked : public ::testing::Test {
 protected:
  void park(int rank, std::uint64_t id, std::uint64_t collective = 0) {
    auto channel = std::make_shared<MpiChannel>(ranks.size());
    if (collective != 0) channel->traffic.note_collective(collective);
    parked[rank].park(ranks, {.id = id, .channel = channel});
  }
  /// Both make a group; what they agree on is ended again.
  std::optional<std::uint64_t> make_group() {
    const std::uint64_t uid = next_uid++;
    std::vector<std::vector<std::uint64_t>> offers;
    for (auto& own : parked) {
      Packer packer;
      own.offer(packer, uid, ranks);
      Unpacker unpacker(packer.packed());
      auto& words = offers.emplace_back();
      while (!unpacker.empty()) words.push_back(unpacker.number());
    }
    const auto chosen = ParkedCommunicators::choose(offers);
    for (auto& own : parked) {
      own.forget_vain(uid, offers);
      if (chosen) own.park(ranks, own.take(uid, ranks, *chosen));
      own.give_back(uid, ranks);
    }
    return chosen ? std::optional(chosen->id) : std::nullopt;
  }

  ParkedCommunicators parked[2];
  std::uint64_t next_uid = 100;
};

TEST_F(Parked, IsUsedAgain) {
  for (const int rank : {0, 1}) park(rank, 1);
  for (int time = 0; time < 100; ++time) EXPECT_EQ(make_group(), 1u);
  EXPECT_EQ(parked[0].count(), 1u);
}

TEST_F(Parked, WhereCallsDifferIsForgottenAtOnce) {
  for (const int rank : {0, 1}) park(rank, 1, static_cast<std::uint64_t>(rank + 5));
  EXPECT_EQ(make_group(), std::nullopt);
  for (auto& own : parked) EXPECT_EQ(own.count(), 0u);
  EXPECT_NE(parked[0].left_over(0) + parked[1].left_over(1), 0u);
}

TEST_F(Parked, WaitsForAMemberThatStillUsesIt) {
  park(0, 1);
  for (int time = 0; time < 5; ++time) EXPECT_EQ(make_group(), std::nullopt);
  park(1, 1);
  EXPECT_EQ(make_group(), 1u);
}

// Rank 1 has given up every one of its groups.
TEST_F(Parked, OfGroupsThatAMemberHasLostDoNotGrowForEver) {
  for (std::uint64_t id = 1; id < 1000; ++id) {
    park(0, id);
    EXPECT_EQ(make_group(), std::nullopt);
    EXPECT_LE(parked[0].count(), 16u);
  }
}

}  // namespace
}  // namespace hymn::test
