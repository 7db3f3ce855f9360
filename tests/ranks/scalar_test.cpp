// One element, by its name alone.
#include <gmock/gmock.h>

#include <complex>

#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

RANK_TEST(Scalar, IsReducedInPlace) {
  ProcessGroup& group = world.group();
  double value = world.rank() + 0.5;
  group.all_reduce(value);
  const int size = world.size();
  EXPECT_EQ(value, size * (size - 1) / 2.0 + size / 2.0);
  std::int16_t small = static_cast<std::int16_t>(-world.rank());
  group.all_reduce(small, ReduceOp::min);
  EXPECT_EQ(small, 1 - size);
  bool any = world.rank() == size - 1;
  group.all_reduce_async(any, ReduceOp::lor).wait();
  EXPECT_TRUE(any);
}

RANK_TEST(Scalar, ReducedComesBack) {
  ProcessGroup& group = world.group();
  const std::int64_t mine = world.rank() + 1;
  EXPECT_EQ(group.all_reduced(mine, ReduceOp::max), world.size());
  EXPECT_EQ(mine, world.rank() + 1);
  EXPECT_EQ(group.all_reduced(2.5F), 2.5F * static_cast<float>(world.size()));
  EXPECT_EQ(group.all_reduced(std::complex<double>(1, -1)),
            std::complex<double>(world.size(), -world.size()));
}

RANK_TEST(Scalar, GoesThroughEveryCollective) {
  ProcessGroup& group = world.group();
  const int rank = world.rank();
  const int size = world.size();
  const auto ranks = everybody(world);
  int value = rank == size - 1 ? 42 : 0;
  group.broadcast(value, size - 1);
  EXPECT_EQ(value, 42);
  const int mine = rank;
  int sum = -1;
  group.reduce(mine, sum, 0);
  EXPECT_EQ(sum, rank == 0 ? size * (size - 1) / 2 : -1);
  group.scan(mine, sum);
  EXPECT_EQ(sum, rank * (rank + 1) / 2);
  std::vector<int> all(ranks.size(), -1);
  group.all_gather(mine, all);
  EXPECT_EQ(all, ranks);
  int own = -1;
  group.scatter(all, own, 0);
  EXPECT_EQ(own, rank);
  group.reduce_scatter(all, own);
  EXPECT_EQ(own, size * rank);
}

RANK_TEST(Scalar, IsSent) {
  NEEDS_RANKS(2);
  if (world.rank() == 0) {
    const double pi = 3.25;
    world.group().send(pi, 1);
  } else if (world.rank() == 1) {
    double got = 0;
    world.group().recv(got, 0);
    EXPECT_EQ(got, 3.25);
  }
  world.group().barrier();
}

}  // namespace
}  // namespace hymn::test
