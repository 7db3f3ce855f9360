// Collectives on memory from hymn::allocate, with members that are stepped one by one in a single
// thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "hymn/allocate.hpp"
#include "hymn/error.hpp"
#include "tests/unit/shm_team.hpp"

namespace hymn::test {
namespace {

using SharedInts = std::vector<std::int32_t, Allocator<std::int32_t>>;

/// Of a member: 9 MiB, more than a step does; the last step of two such blocks has 2 MiB left.
constexpr std::size_t block_count = 9 * (std::size_t{1} << 18);

/// Two members that have memory which others can reach, and know it of each other.
class DirectSteps : public testing::Test {
 protected:
  DirectSteps() {
    for (int call = 0; call < 2; ++call) {
      Parts parts = all_gather();
      EXPECT_TRUE(finish(parts));
    }
    for (Ints& output : outputs_) std::fill(output.begin(), output.end(), 0);
  }

  Parts all_gather() {
    Parts parts;
    for (int me = 0; me < 2; ++me)
      parts.push_back(std::make_unique<Part>(
          team_, me, "all_gather_slots",
          Request::all_gather(inputs_[me], OutputBlocks::equal(outputs_[me]))));
    return parts;
  }

  Team team_{2};
  std::vector<SharedInts> inputs_{SharedInts(block_count, 1), SharedInts(block_count, 2)};
  std::vector<Ints> outputs_{Ints(2 * block_count), Ints(2 * block_count)};
};

std::size_t count_of(std::int32_t value, const Ints& in) {
  return static_cast<std::size_t>(std::count(in.begin(), in.end(), value));
}

TEST_F(DirectSteps, ALargePartTakesManySteps) {
  std::fill(inputs_[0].begin(), inputs_[0].end(), 3);
  std::fill(inputs_[1].begin(), inputs_[1].end(), 4);
  Parts parts = all_gather();
  // Before it can be seen that the other has shown its data, nothing is done.
  int steps = 0;
  for (; !parts[0]->step(); ++steps) {
    const std::size_t done = count_of(3, outputs_[0]) + count_of(4, outputs_[0]);
    if (done == 2 * block_count) break;
    EXPECT_LE(done, static_cast<std::size_t>(steps + 1) * (std::size_t{5} << 18));
  }
  EXPECT_GE(steps, 4);
  EXPECT_TRUE(finish(parts));
  for (const Ints& output : outputs_) {
    EXPECT_EQ(Ints(output.begin(), output.begin() + block_count), Ints(block_count, 3));
    EXPECT_EQ(Ints(output.begin() + block_count, output.end()), Ints(block_count, 4));
  }
}

TEST_F(DirectSteps, NobodyFallsAsleepOverALargePart) {
  Parts parts = all_gather();
  EXPECT_FALSE(parts[0]->step());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(parts[0]->park(40'000'000'000));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_TRUE(finish(parts));
}

// One member is slow. The other, which shows nothing but its input, has done its own part, and
// gives up: from then on its memory is its own.
TEST_F(DirectSteps, ASlowReaderFails) {
  Parts parts = all_gather();
  for (int step = 0; step < 100; ++step) ASSERT_FALSE(parts[1]->step());
  for (int step = 0; step < 4; ++step) ASSERT_FALSE(parts[0]->step());
  EXPECT_EQ(count_of(2, outputs_[0]), block_count - (std::size_t{2} << 18))
      << "all but the last 2 MiB";
  parts[1]->abandon();
  std::fill(inputs_[1].begin(), inputs_[1].end(), 99);
  EXPECT_THROW(parts[0]->step(), AbortedError);
}

}  // namespace
}  // namespace hymn::test
