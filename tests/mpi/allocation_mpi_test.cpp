// In a steady state a small blocking all_reduce takes nothing from the heap for hymn: over MPI; an
// asynchronous one next to nothing. What MPI takes by malloc is not counted, nor what hymn's own
// threads take, which do other things.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/mpi/check.hpp"
#include "tests/unit/allocation_count.hpp"

namespace hymn::test {
namespace {

/// What 200 calls take, after some to warm up: at the best of several times, for who waits long for
/// a rank without a core looks whether that makes another call.
std::size_t taken_by(const std::function<void()>& call) {
  for (int i = 0; i < 100; ++i) call();
  std::size_t least = SIZE_MAX;
  for (int turn = 0; turn < 5; ++turn) {
    const std::size_t before = allocations_of_this_thread();
    for (int i = 0; i < 200; ++i) call();
    least = std::min(least, allocations_of_this_thread() - before);
  }
  return least;
}

void run() {
  World world;
  const std::vector<int> everybody = world.group().membership().ranks;
  std::vector<float> values(16);
  std::vector<std::int8_t> bytes(16);
  // The count counts.
  [[maybe_unused]] const int* volatile seen = nullptr;
  CHECK(taken_by([&] {
          const std::vector<int> copy = everybody;
          seen = copy.data();
        }) >= 200);
  // One rank alone reduces without MPI, and shares memory with nobody.
  std::vector<std::string> paths = {""};
  if (world.size() > 1) paths = {"mpi", "shm"};
  for (const std::string& path : paths)
    for (const Timeout limit : {Timeout::none(), Timeout(std::chrono::minutes(1))}) {
      // Made with the limit, because that decides which of MPI's calls are made.
      ProcessGroup group = world.new_group(everybody, {.timeout = limit, .path = path});
      CHECK(taken_by([&] { group.all_reduce(values); }) == 0);
      CHECK(taken_by([&] { group.all_reduce(bytes, ReduceOp::max); }) == 0);
      CHECK(taken_by([&] { group.broadcast(values, 0); }) == 0);
      CHECK(taken_by([&] { group.scan(values); }) == 0);
      CHECK(taken_by([&] { group.exscan(bytes, ReduceOp::max); }) == 0);
      CHECK(taken_by([&] { group.barrier(); }) == 0);
      // Every 64th begins a block of those that are in order.
      CHECK(taken_by([&] { group.all_reduce_async(values).wait(); }) <= 4);
    }
}

}  // namespace
}  // namespace hymn::test

int main() {
  hymn::test::run();
  return 0;
}
