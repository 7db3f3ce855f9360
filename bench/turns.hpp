// What benchmarks need that compare ways of doing the same, which take turns: blocks of calls that
// are long enough to be timed, and what comes out of many of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "tools/bench/figures.hpp"

namespace hymn::bench {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
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
  return hymn::enough_iterations(
      1000, 10000, [&](std::size_t iterations) { return time_block(job, data, iterations, call); },
      [&](std::vector<double> means) { return job.slowest(std::move(means)); });
}

}  // namespace hymn::bench
