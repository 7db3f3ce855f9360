// In a steady state a small blocking all_reduce takes nothing from the heap for hymn: over MPI.
// What MPI takes by malloc is not counted.
#include <vector>

#include "tests/mpi/check.hpp"
#include "tests/unit/allocation_count.hpp"

namespace hymn::test {
namespace {

/// What 1000 calls take, after some to warm up.
std::size_t taken_by(const std::function<void()>& call) {
  for (int i = 0; i < 100; ++i) call();
  const std::size_t before = allocations();
  for (int i = 0; i < 1000; ++i) call();
  return allocations() - before;
}

void run() {
  World world;
  ProcessGroup& group = world.group();
  std::vector<float> values(16);
  std::vector<std::int8_t> bytes(16);
  CHECK(taken_by([&] { group.all_reduce_async(values).wait(); }) >= 1000);  // the count counts
  for (const Timeout limit : {Timeout::none(), Timeout(std::chrono::minutes(1))}) {
    group.set_timeout(limit);
    // One rank alone is no steady state of MPI's: hymn reduces by itself there.
    if (world.size() > 1) {
      CHECK(group.explain(Request::all_reduce(BufferView(values), BufferView(values))).path ==
            "mpi");
      CHECK(taken_by([&] { group.all_reduce(values); }) == 0);
      CHECK(taken_by([&] { group.all_reduce(bytes, ReduceOp::max); }) == 0);
    }
    CHECK(taken_by([&] { group.broadcast(values, 0); }) == 0);
    CHECK(taken_by([&] { group.barrier(); }) == 0);
  }
}

}  // namespace
}  // namespace hymn::test

int main() {
  hymn::test::run();
  return 0;
}
