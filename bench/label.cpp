// What the label of a call costs (docs/checks.md): to make it, to chain it to those of all calls
// before, to write it into the flag of the turn, to show it, and to compare it with what the other
// members have written. Flags that only number the turns are there without labels, too: that is the
// other side of the measurement. All flags are in this core's cache.
//
//   build/bin/bench_label
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/turns.hpp"
#include "collectives/call_label.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr std::size_t blocks = 1001;
constexpr std::size_t turns = 1024;

/// What a member writes, as it lies in shared memory.
struct ControlBlock {
  std::atomic<std::uint64_t> flag{0};
  std::atomic<std::uint64_t> shown{0};
};

/// The compiler must not know that it is always the same.
const Request& hidden(const Request& request) {
  const Request* where = &request;
  asm volatile("" : "+r"(where) : : "memory");
  return *where;
}

/// What the others have written in each turn.
using Flags = std::vector<std::atomic<std::uint64_t>>;

/// Each side makes all its turns, and tells how many of the others' flags were as they must be.
std::size_t plain(ControlBlock& control_block, const Flags& theirs, const Request& request,
                  int others) {
  std::size_t good = 0;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    hidden(request);
    control_block.flag.store(SlotFlag::make(turn, 0, 0), std::memory_order_release);
    for (int other = 0; other < others; ++other)
      good += SlotFlag::is_of(theirs[turn].load(std::memory_order_acquire), turn) ? 1 : 0;
  }
  return good;
}

std::size_t labelled(ControlBlock& control_block, const Flags& theirs, const Request& request,
                     int others) {
  CallChain chain;
  std::size_t good = 0;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    const std::uint64_t label = chain.next(call_label(hidden(request)));
    control_block.shown.store((turn + 1) << 32 | upper_bits(label, 32), std::memory_order_relaxed);
    control_block.flag.store(SlotFlag::make(turn, label, 0), std::memory_order_release);
    for (int other = 0; other < others; ++other) {
      const std::uint64_t flag = theirs[turn].load(std::memory_order_acquire);
      good += SlotFlag::is_of(flag, turn) ? 1 : 0;
      if (!SlotFlag::has_label(flag, label)) [[unlikely]]
        throw_other_call(other, request);
    }
  }
  return good;
}

using Side = std::size_t (*)(ControlBlock&, const Flags&, const Request&, int);

/// Nanoseconds for one call.
double time_block(Side side, const Flags& theirs, const Request& request, int others) {
  ControlBlock control_block;
  const auto began = Clock::now();
  const std::size_t good = side(control_block, theirs, request, others);
  const double spent = microseconds(Clock::now() - began);
  if (good != turns * static_cast<std::size_t>(others)) std::abort();
  return spent * 1000 / static_cast<double>(turns);
}

void measure(const char* name, const Request& request, int ranks) {
  Flags theirs(turns);
  CallChain chain;
  for (std::uint64_t turn = 0; turn < turns; ++turn)
    theirs[turn] = SlotFlag::make(turn, chain.next(call_label(request)), 0);
  std::vector<double> without(blocks);
  std::vector<double> with(blocks);
  std::vector<double> added(blocks);
  for (std::size_t block = 0; block < blocks; ++block) {
    const bool labels_first = block % 2 == 1;
    if (labels_first) with[block] = time_block(labelled, theirs, request, ranks - 1);
    without[block] = time_block(plain, theirs, request, ranks - 1);
    if (!labels_first) with[block] = time_block(labelled, theirs, request, ranks - 1);
    added[block] = with[block] - without[block];
  }
  const BenchTimes p = figures_of(without);
  const BenchTimes l = figures_of(with);
  fmt::print("{:<16} {:>5}  {:>8.2f} {:>8.2f}  {:>8.2f} {:>8.2f}  {:>8.2f} {:>8.2f}\n", name, ranks,
             p.median, p.min, l.median, l.min, figures_of(added).median, l.min - p.min);
}

void run() {
  fmt::print("# {} blocks of {} calls of each side, in turns; ns for one call\n", blocks, turns);
  fmt::print("{:<16} {:>5}  {:^17}  {:^17}  {:^17}\n", "", "", "without", "with labels", "added");
  fmt::print("{:<16} {:>5}  {:>8} {:>8}  {:>8} {:>8}  {:>8} {:>8}\n", "call", "ranks", "median",
             "min", "median", "min", "median", "of mins");
  std::vector<float> values(1);
  for (const int ranks : {2, 4, 8}) {
    measure("all_reduce", Request::all_reduce(ConstBufferView(values), BufferView(values)), ranks);
    measure("broadcast", Request::broadcast(BufferView(values), 0), ranks);
    measure("barrier", Request::barrier(), ranks);
  }
}

}  // namespace
}  // namespace hymn

int main() { hymn::run(); }
