// What benchmarks need that compare ways of doing the same, which take turns: blocks of calls that
// are long enough to be timed, and what comes out of many of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace hymn::bench {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

struct Figures {
  double median = 0;
  double min = 0;
  double max = 0;
};

inline Figures figures_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

/// The buffers of one size.
struct Data {
  explicit Data(std::size_t bytes) : in(bytes / sizeof(float)), out(in.size()) {}
  int count() const { return static_cast<int>(in.size()); }
  // Another input each time, at a price that all sides pay alike and that does not show.
  void alter(std::size_t iteration) { in.front() = static_cast<float>(iteration % 1024); }

  std::vector<float> in;
  std::vector<float> out;
};

/// Microseconds of one call on this rank, the mean of a block of them that all ranks begin
/// together; `call` is given its number. A Job can meet(), and tell the slowest() of all ranks'
/// values, one by one.
template <class Job, class Call>
double time_calls(const Job& job, std::size_t iterations, Call&& call) {
  job.meet();
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < iterations; ++i) call(i);
  return microseconds(Clock::now() - begin) / static_cast<double>(iterations);
}

/// The same with another input each time.
template <class Job, class Call>
double time_block(const Job& job, Data& data, std::size_t iterations, Call&& call) {
  return time_calls(job, iterations, [&](std::size_t i) {
    data.alter(i);
    call();
  });
}

/// How many calls take about a millisecond, the same on all ranks.
template <class Job, class Call>
std::size_t enough_iterations(const Job& job, Data& data, Call&& call) {
  constexpr double block_us = 1000;
  constexpr std::size_t most = 10000;
  for (std::size_t iterations = 1;; iterations *= 8) {
    // The best of five: an interruption must not pass for a slow operation.
    std::vector<double> tries(5);
    for (double& mean : tries) mean = time_block(job, data, iterations, call);
    const double us = figures_of(job.slowest(std::move(tries))).min;
    if (us * static_cast<double>(iterations) < block_us / 8 && iterations < most) continue;
    return static_cast<std::size_t>(std::clamp(block_us / us, 1.0, static_cast<double>(most)));
  }
}

}  // namespace hymn::bench
