// What ranks tell of each other while some of them wait in the making of a group, which the others
// do not come to.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hymn/hymn.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

void expect_deadlock(const std::function<void()>& call, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "it has come to an end";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.context().missing, (std::vector{0, 1})) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

void receive_from_1(World& world, Timeout timeout) {
  std::vector<std::int32_t> word(1);
  world.group().recv(word, 1, 0, {.timeout = timeout});
}

ProcessGroup group_of_all(World& world, Timeout limit) {
  return world.new_group({0, 1, 2}, {.init_timeout = limit});
}

TEST(LateGroup, ItsErrorNamesAllWhoWaitForEachOther) {
  run_ranks(3, [](World& world) {
    if (world.rank() == 0)
      EXPECT_THROW(receive_from_1(world, 6s), Error);
    else if (world.rank() == 1)
      expect_deadlock([&] { (void)group_of_all(world, 1s); },
                      {"missing: rank 0 (", "it is in recv #1 of 1 int32 from rank 1",
                       "rank 0 waits for rank 1", "deadlock: ranks 0, 1 wait for each other"});
    else
      EXPECT_THROW((void)group_of_all(world, 4s), Error);
  });
}

TEST(LateGroup, IsToldOfByWhoWaitsForItsRanks) {
  run_ranks(3, [](World& world) {
    if (world.rank() == 0)
      expect_deadlock(
          [&] { receive_from_1(world, 1s); },
          {"it is making group 1 of ranks 0-2 since", "deadlock: ranks 0, 1 wait for each other"});
    else
      EXPECT_THROW((void)group_of_all(world, 4s), Error);
  });
}

}  // namespace
}  // namespace hymn::test
