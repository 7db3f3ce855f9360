// What tests of the deterministic world share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>

#include "hymn/hymn.hpp"
#include "hymn/simulation.hpp"

namespace hymn::test {

using namespace std::chrono_literals;
using testing::HasSubstr;

inline SimulationOptions ranks(int count, std::uint64_t seed = 0) {
  return {.ranks = count, .seed = seed, .story = true};
}

inline void sum_once(World& world) {
  std::int32_t sum = 1;
  world.group().all_reduce(sum);
  if (sum != world.size()) throw std::runtime_error("a wrong sum");
}

/// Sums by whoever is left; what a rank has summed all that are left have. How many are left.
inline int sum_and_shrink(World& world, int times) {
  ProcessGroup group = world.group();
  bool is_new = false;
  for (int done = 0; done < times;) {
    try {
      if (is_new) group.all_reduce(done, ReduceOp::min);
      is_new = false;
      std::int32_t sum = 1;
      group.all_reduce(sum);
      EXPECT_EQ(sum, group.size());
      ++done;
    } catch (const Error&) {
      group = group.shrink();
      is_new = true;
    }
  }
  return group.size();
}

}  // namespace hymn::test
