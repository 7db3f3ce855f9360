// How long benchmarks make a block of calls.
#include "tools/bench/figures.hpp"

#include <gtest/gtest.h>

namespace hymn::test {
namespace {

/// Calls that take `usual` microseconds, but the first ones `at_first`.
struct ToyCalls {
  double at_first, usual;
  std::size_t slow;  ///< how many of them
  std::size_t made = 0;

  double mean(std::size_t count) {
    double us = 0;
    for (std::size_t i = 0; i < count; ++i) us += made++ < slow ? at_first : usual;
    return us / static_cast<double>(count);
  }
};

std::size_t enough(ToyCalls calls, std::size_t most = 100'000) {
  return enough_iterations(
      2000, most, [&](std::size_t count) { return calls.mean(count); },
      [](std::vector<double> means) { return means; });
}

TEST(BenchFigures, ABlockLastsAsLongAsItShould) {
  for (const double us : {.1, 1.0, 30.0, 1999.0, 1e6})
    EXPECT_EQ(enough({us, us, 0}), std::max<std::size_t>(1, static_cast<std::size_t>(2000 / us)));
}

TEST(BenchFigures, CallsThatAreSlowAtFirstDoNotMakeItShort) {
  // Two ranks on one core, before the kernel moves one: 1000 of these last as long as a block.
  EXPECT_EQ(enough({2, .1, 3000}), 20'000u);
  EXPECT_EQ(enough({40, .1, 5}), 20'000u);
}

TEST(BenchFigures, ThereIsAMost) {
  EXPECT_EQ(enough({.1, .1, 0}, 500), 500u);
  EXPECT_EQ(enough({0, 0, 0}), 100'000u);
}

}  // namespace
}  // namespace hymn::test
