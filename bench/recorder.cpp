// What the record of each call costs: the whole of it, in a loop that does nothing else.
//
//   build/bin/bench_recorder
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "runtime/call_ring.hpp"

namespace hymn {
namespace {

constexpr int blocks = 101;
constexpr int calls = 20000;

/// Nanoseconds for one call, sorted.
std::vector<double> measure(CallRing& ring) {
  std::vector<double> times;
  CallRecord record{.group_uid = 1, .type = OpType::all_reduce, .dtype = DataType::float32};
  for (int block = 0; block < blocks; ++block) {
    const auto began = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) {
      record.count = static_cast<std::uint64_t>(call);
      ring.set_state(ring.record(record), CallState::completed);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    times.push_back(took.count() / calls);
  }
  std::sort(times.begin(), times.end());
  return times;
}

void print(const char* who, CallRing::Writers writers) {
  const std::size_t bytes = CallRing::memory_bytes();
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
  CallRing ring = CallRing::create({memory, bytes}, writers);
  const std::vector<double> times = measure(ring);
  fmt::print("{:<34}{:>8.1f}{:>8.1f}{:>8.1f}\n", who, times[times.size() / 2], times.front(),
             times.back());
  std::free(memory);
}

}  // namespace
}  // namespace hymn

int main() {
  fmt::print("{:<34}{:>8}{:>8}{:>8}\n", "nanoseconds a call", "median", "min", "max");
  hymn::print("threads may call at the same time", hymn::CallRing::Writers::many);
  hymn::print("one call at a time", hymn::CallRing::Writers::one_at_a_time);
}
