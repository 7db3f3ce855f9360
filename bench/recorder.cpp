// What the record of each call costs: the whole of it, in a loop that does nothing else.
//
//   build/bin/bench_recorder
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "recorder/call_ring.hpp"

namespace hymn {
namespace {

constexpr int blocks = 101;
constexpr int calls = 20000;
constexpr std::align_val_t alignment{64};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
};

/// One call as a group records it.
[[gnu::noinline]] void call_once(CallRing& ring, const Request& request, std::uint64_t number,
                                 bool waits) {
  const std::uint64_t id = ring.claim();
  const bool timing = ring.timing();
  const std::uint64_t started = timing ? time_stamp() : 0;
  if (ring.is_on()) {
    CallRecord record{.group_uid = 1, .op_id = number, .sequence = number, .type = request.type};
    record.kind = request.op.kind();
    record.peer = request.peer;
    record.input = side_of(request.inputs);
    record.output = side_of(request.outputs);
    record.created = timing ? started : time_stamp();
    if (timing) {
      record.started = started + 1;
      record.state = CallState::started;
    }
    record.site = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    ring.fill(id, record);
  }
  ring.set_ended(id, CallState::completed, true,
                 timing || waits ? CallRing::Ended::now : CallRing::Ended::at_once);
}

/// Nanoseconds for one call, sorted.
std::vector<double> measure(CallRing& ring, bool waits) {
  std::vector<double> times;
  std::vector<float> values(12);
  const Request request = Request::all_reduce(values, values);
  for (int block = 0; block < blocks; ++block) {
    const auto began = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call)
      call_once(ring, request, static_cast<std::uint64_t>(call), waits);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    times.push_back(took.count() / calls);
  }
  std::sort(times.begin(), times.end());
  return times;
}

struct Kind {
  const char* name;
  CallRing::Size size{};
  CallRing::Writers writers = CallRing::Writers::many;
  bool timing = false;
  bool joined = false;  ///< by a second thread
  bool waits = false;   ///< so long that the time of its end is read
};

void print(const Kind& kind) {
  const std::size_t bytes = CallRing::memory_bytes(kind.size);
  const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(::operator new(bytes, alignment)));
  CallRing ring = CallRing::create({memory.get(), bytes}, kind.size, kind.writers);
  ring.set_timing(kind.timing);
  if (kind.joined) std::thread([&ring] { ring.record({}); }).join();
  const std::vector<double> times = measure(ring, kind.waits);
  fmt::print("{:<44}{:>8.1f}{:>8.1f}{:>8.1f}\n", kind.name, times[times.size() / 2], times.front(),
             times.back());
}

}  // namespace
}  // namespace hymn

int main() {
  using hymn::CallRing;
  constexpr auto one = CallRing::Writers::one_at_a_time;
  fmt::print("{:<44}{:>8}{:>8}{:>8}\n", "nanoseconds a call", "median", "min", "max");
  hymn::print({.name = "off", .size = {.entries = 0}});
  hymn::print({.name = "one thread calls"});
  hymn::print({.name = "one thread calls, and waits", .waits = true});
  hymn::print({.name = "one thread calls, timing", .timing = true});
  hymn::print({.name = "no other thread may call", .writers = one});
  hymn::print({.name = "several threads have called", .joined = true});
  hymn::print({.name = "16384 entries", .size = {.entries = 16384}});
  hymn::print({.name = "8 callers of each", .size = {.frames = 8}});
}
