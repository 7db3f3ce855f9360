// What all benchmarks make of the times of blocks of calls, and how long they make a block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace hymn {

/// Of the means of several blocks, each on its slowest rank; microseconds.
struct BenchTimes {
  double median = 0;
  double min = 0;
  double max = 0;
};

inline BenchTimes figures_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t last = values.size() - 1;
  return {(values[last / 2] + values[last - last / 2]) / 2, values.front(), values.back()};
}

/// How many calls last about `block_us`, the same on all ranks; no more than `most`. `mean` times
/// so many, in microseconds a call, and `slowest` gives the greatest of all ranks' values, one by
/// one.
template <class Mean, class Slowest>
std::size_t enough_iterations(double block_us, std::size_t most, Mean&& mean, Slowest&& slowest) {
  // Few calls say little of many: the first ones may be far slower, and ranks may share a core
  // until the kernel moves one. So nearly as many as it comes to have been timed. The best of five
  // tries: an interruption must not pass for a slow operation.
  std::size_t iterations = 1;
  while (true) {
    std::vector<double> tries(5);
    for (double& one : tries) one = mean(iterations);
    const double us = std::max(figures_of(slowest(std::move(tries))).min, 1e-3);
    const auto enough =
        static_cast<std::size_t>(std::clamp(block_us / us, 1.0, static_cast<double>(most)));
    if (enough - enough / 5 <= iterations) return enough;
    iterations = std::min(enough, 8 * iterations);
  }
}

}  // namespace hymn
