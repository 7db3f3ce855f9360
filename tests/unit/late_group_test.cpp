// What ranks tell of each other while some of them wait in the making of a group, which the others
// do not come to.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/unit/other_waits.hpp"

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

constexpr auto call_limit = 1s;  // of one rank's call, which comes when the other waits
constexpr auto longer = 60s;     // of the other's, which comes to an end after that

TEST(LateGroup, ItsErrorNamesAllWhoWaitForEachOther) {
  run_ranks(2, [](World& world) {
    std::int32_t word = 0;
    if (world.rank() == 0) {
      world.group().recv(view_of(word), 1, 0, {.timeout = longer});
    } else {
      await_wait_of(world, 0);
      expect_deadlock([&] { (void)world.new_group({0, 1}, {.init_timeout = call_limit}); },
                      {"missing: rank 0 (", "it has been in recv #1 of 1 int32 from rank 1",
                       "rank 0 waits for rank 1", "deadlock: ranks 0, 1 wait for each other"});
      world.group().send(view_of(word), 0, 0);
    }
  });
}

TEST(LateGroup, IsToldOfByWhoWaitsForItsRanks) {
  run_ranks(2, [](World& world) {
    std::int32_t word = 0;
    if (world.rank() == 0) {
      await_wait_of(world, 1);
      expect_deadlock([&] { world.group().recv(view_of(word), 1, 0, {.timeout = call_limit}); },
                      {"it has been making group 1 of ranks 0-1 for",
                       "deadlock: ranks 0, 1 wait for each other"});
    }
    EXPECT_EQ(world.new_group({0, 1}, {.init_timeout = longer}).size(), 2);
  });
}

}  // namespace
}  // namespace hymn::test
