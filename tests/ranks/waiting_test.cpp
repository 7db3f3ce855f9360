// A rank that waits for a late one leaves the processor to others: counted is what its waiting took
// of processor time, which does not grow when the machine has other things to do.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "base/sanitizers.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

using Seconds = std::chrono::duration<double>;

// MPI has threads of its own, which count.
Seconds processor_time() {
  rusage usage{};
  getrusage(ranks_are_threads() ? RUSAGE_THREAD : RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return Seconds(seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

/// The last rank comes a second late to what the others wait for.
void expect_idle_wait(ProcessGroup& group, const std::string& what, bool blocking) {
  SCOPED_TRACE(what + (blocking ? ", blocking" : ", waiting for its work"));
  std::vector<std::int64_t> values(100, 1);
  const auto reduce = [&] {
    if (blocking)
      group.all_reduce(values);
    else
      group.all_reduce_async(values).wait();
  };
  reduce();  // what is done once only is done now
  if (group.rank() == group.size() - 1) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    reduce();
    return;
  }
  const auto began = std::chrono::steady_clock::now();
  const Seconds used_before = processor_time();
  reduce();
  const Seconds used = processor_time() - used_before;
  const Seconds waited = std::chrono::steady_clock::now() - began;
  // With a sanitizer the steps before it falls asleep take long.
  const double share = sanitized ? 0.5 : 0.1;
  EXPECT_LT(used.count(), share * std::max(waited.count(), 1.0)) << "of " << waited.count() << " s";
}

RANK_TEST(Waiting, TakesLittleOfTheProcessor) {
  // The number of ranks matters little, and every case takes a second.
  if (world.size() != 3) return;
  const std::vector<int> ranks = {0, 1, 2};
  ProcessGroup free = world.new_group(ranks, {.path = every_path()});
  for (const Road& road : roads_of(free, OpType::all_reduce)) {
    if (road.path != "shm" && road.path != "threads") continue;
    ProcessGroup group = world.new_group(ranks, forced(road));
    std::vector<std::int64_t> values(100);
    if (group.explain(Request::all_reduce(values, values)).algorithm.empty()) continue;
    expect_idle_wait(group, to_string(road), true);
    expect_idle_wait(group, to_string(road), false);
  }
}

}  // namespace
}  // namespace hymn::test
