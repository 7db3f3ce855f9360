// Who watches the watchdog.
#include "recorder/monitor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

TEST(BeatJudge, SoManyLooksWithoutABeat) {
  BeatJudge judge(3);
  EXPECT_FALSE(judge.has_stopped(7));
  EXPECT_FALSE(judge.has_stopped(7));
  EXPECT_FALSE(judge.has_stopped(7));
  EXPECT_TRUE(judge.has_stopped(7));
  EXPECT_TRUE(judge.has_stopped(7));
}

TEST(BeatJudge, ABeatStartsTheCountAnew) {
  BeatJudge judge(3);
  for (std::uint64_t beats = 1; beats < 100; ++beats)
    for (int look = 0; look < 3; ++look) EXPECT_FALSE(judge.has_stopped(beats)) << beats;
  EXPECT_TRUE(judge.has_stopped(99));
}

TEST(BeatJudge, BackwardsIsABeatToo) {
  BeatJudge judge(1);
  EXPECT_FALSE(judge.has_stopped(5));
  EXPECT_FALSE(judge.has_stopped(4));
  EXPECT_TRUE(judge.has_stopped(4));
}

TEST(Monitor, SaysOnceThatABeatHasStopped) {
  std::atomic<int> calls{0};
  std::atomic<int> looks{0};
  std::promise<void> stopped;
  {
    Monitor monitor(
        8ms,
        [&] {
          ++looks;
          return std::uint64_t{1};
        },
        [&] {
          if (++calls == 1) stopped.set_value();
        });
    ASSERT_EQ(stopped.get_future().wait_for(60s), std::future_status::ready);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(looks, 9) << "the first, and eight that saw the same; then no more";
}

TEST(Monitor, SaysNothingWhileItBeats) {
  std::atomic<int> calls{0};
  std::atomic<std::uint64_t> beats{0};
  std::promise<void> enough;
  {
    Monitor monitor(
        8ms,
        [&] {
          // As often as it looks, but for some times: not for long enough.
          const std::uint64_t looks = ++beats;
          if (looks == 64) enough.set_value();
          return looks / 8;
        },
        [&] { ++calls; });
    ASSERT_EQ(enough.get_future().wait_for(60s), std::future_status::ready);
  }
  EXPECT_EQ(calls, 0);
}

TEST(Monitor, EndsAtOnceHoweverLongItsTime) {
  Monitor monitor(1h, [] { return std::uint64_t{0}; }, [] { FAIL() << "too soon"; });
}

}  // namespace
}  // namespace hymn::test
