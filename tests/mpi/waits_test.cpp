// Who waits in a call of hymn moves what is in flight in the process: rank 0 has started operations
// and goes into that call, for which rank 1 comes only when it has those operations behind it.
//   waits_test new|async|settled|destroy|world|shrink
//   waits_test other_call|other_work|other_made|other_ended      of another world than theirs
//   waits_test threads       two threads make groups at the same time: neither keeps the other out
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/mpi/check.hpp"
#include "tests/support/create_group.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Whether there are so many soon.
bool reaches(const std::atomic<int>& count, int wanted) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (count < wanted) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Operations that take many steps of both ranks.
struct InFlight {
  explicit InFlight(ProcessGroup group) {
    for (auto& values : data) works.push_back(group.all_reduce_async(values));
  }
  void finish() {
    for (Work& work : works) work.wait();
    for (const auto& values : data)
      for (const float value : values) CHECK(value == 2);
  }
  std::vector<std::vector<float>> data{3, std::vector<float>(1'000'000, 1)};
  std::vector<Work> works;
};

/// Two worlds at once: works of one of them, while rank 0 waits in the other.
void run_two_worlds(std::string_view how) {
  World world({.timeout = 20s});
  CHECK(world.size() == 2);
  World other({.timeout = 20s});
  InFlight moving(world.group());
  const bool first = world.rank() == 0;
  if (!first) moving.finish();
  if (how == "other_call") {
    other.group().barrier();
  } else if (how == "other_work") {
    other.group().barrier_async().wait();
  } else if (how == "other_made") {
    World third({.timeout = 20s});
    third.group().barrier();
  } else if (how == "other_ended") {
    other.destroy();
  } else {
    CHECK(false);
  }
  if (first) moving.finish();
}

void wait_in(std::string_view how) {
  World world({.timeout = 20s});
  CHECK(world.size() == 2);
  ProcessGroup other = world.new_group({0, 1});
  InFlight moving(world.group());
  // What rank 0 does while rank 1 waits for what is in flight.
  const bool first = world.rank() == 0;
  if (!first) moving.finish();
  if (how == "new") {
    world.new_group({0, 1}).barrier();
  } else if (how == "async") {
    world.new_group_async({0, 1}).get().barrier();
  } else if (how == "settled") {
    const auto before = world.new_group_async({0, 1});
    world.new_group({0, 1}).barrier();
    CHECK(before.is_ready());
  } else if (how == "shrink") {
    other.shrink().barrier();
  } else if (how == "destroy") {
    Work last = other.barrier_async();
    other.destroy();
    CHECK(last.is_completed() && !last.error());
  } else if (how == "world") {
    const auto never_looked_at = world.new_group_async({0, 1});
    world.destroy();
    CHECK(never_looked_at.is_ready());
  } else {
    CHECK(false);
  }
  if (first) moving.finish();
}

void shrink_on_two_threads() {
  World world({.init_timeout = 30s});
  std::vector<ProcessGroup> groups = {world.new_group({0, 1}), world.new_group({0, 1})};
  // The first waits for the second: in whatever order the threads of a rank come, they are in MPI's
  // call together, as they may be by chance.
  std::atomic<int> entered{0};
  std::atomic<bool> was_alone{false};
  create_group().before = [&] {
    if (!reaches(entered, (++entered + 1) / 2 * 2)) was_alone = true;
  };
  std::vector<std::thread> threads;
  for (ProcessGroup& group : groups)
    threads.emplace_back([&group] {
      group = group.shrink();
      std::int32_t one = 1;
      group.all_reduce(view_of(one));
      CHECK(one == 2);
    });
  for (std::thread& thread : threads) thread.join();
  create_group().before = [] {};
  CHECK(!was_alone);
}

void run(std::string_view how) {
  if (how == "threads") return shrink_on_two_threads();
  if (how.starts_with("other_")) return run_two_worlds(how);
  wait_in(how);
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_told(argc, argv, hymn::test::run); }
