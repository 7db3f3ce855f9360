// Timeouts and deadlines: plain values.
#include <gtest/gtest.h>

#include "hymn/timeout.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const TimePoint present{100s};

TEST(Timeout, IsUnsetNoneOrLimited) {
  EXPECT_FALSE(Timeout().is_set());
  EXPECT_FALSE(Timeout().is_none());
  EXPECT_TRUE(Timeout::none().is_set());
  EXPECT_TRUE(Timeout::none().is_none());
  EXPECT_TRUE(Timeout(0s).is_set());
  EXPECT_FALSE(Timeout(0s).is_none());
  EXPECT_EQ(Timeout(2min).duration(), 120s);
  EXPECT_NE(Timeout(0s), Timeout());
  EXPECT_NE(Timeout::none(), Timeout());
}

TEST(Timeout, UnsetFallsBack) {
  EXPECT_EQ(Timeout().or_else(3s), Timeout(3s));
  EXPECT_EQ(Timeout().or_else(Timeout::none()), Timeout::none());
  EXPECT_EQ(Timeout(1s).or_else(3s), Timeout(1s));
  EXPECT_EQ(Timeout::none().or_else(3s), Timeout::none());
  EXPECT_FALSE(Timeout().or_else({}).is_set());
}

TEST(Deadline, ExpiresAtItsPointAndNotBefore) {
  const Deadline deadline = Deadline::after(Timeout(5s), present);
  EXPECT_EQ(deadline.when(), present + 5s);
  EXPECT_FALSE(deadline.is_never());
  EXPECT_FALSE(deadline.expired(present));
  EXPECT_FALSE(deadline.expired(present + 5s - 1ns));
  EXPECT_TRUE(deadline.expired(present + 5s));
  EXPECT_TRUE(deadline.expired(present + 1h));
}

TEST(Deadline, ZeroOrLessHasExpired) {
  EXPECT_TRUE(Deadline::after(Timeout(0s), present).expired(present));
  EXPECT_TRUE(Deadline::after(Timeout(-1s), present).expired(present));
}

TEST(Deadline, NeverDoesNotExpire) {
  for (const Deadline never : {Deadline::never(), Deadline::after(Timeout(), present),
                               Deadline::after(Timeout::none(), present)}) {
    EXPECT_TRUE(never.is_never());
    EXPECT_FALSE(never.expired(present));
    EXPECT_FALSE(never.expired(TimePoint::max()));
  }
}

TEST(Deadline, VeryLongTimesDoNotWrap) {
  EXPECT_TRUE(Deadline::after(Duration::max(), present).is_never());
  EXPECT_TRUE(Deadline::after(Timeout(Duration::max()), present).is_never());
  const Deadline far = Deadline::after(TimePoint::max() - present - 1ns, present);
  EXPECT_FALSE(far.expired(present + 24h * 365 * 200));
}

}  // namespace
}  // namespace hymn::test
