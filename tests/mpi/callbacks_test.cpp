// Ends in callbacks: of worlds, which are refused, of groups, and their handles.
//   callbacks_test world|hook|handle|making|group|shrink
// Callbacks run on whatever thread completes the work: the one that waits, or with
// HYMN_PROGRESS_THREAD=1 hymn's own.
#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

void expect_works(ProcessGroup group) {
  std::int32_t one = 1;
  group.all_reduce(view_of(one));
  CHECK(one == group.size());
}

/// Runs `callback` when a collective of the group has completed, and returns when it has run.
void call_back(ProcessGroup group, const std::function<void()>& callback) {
  std::vector<float> values(100'000, 1);
  std::atomic<bool> called{false};
  Work work = group.all_reduce_async(values);
  const auto done = work.get_future().then([&](const std::vector<BufferView>&) {
    callback();
    called = true;
  });
  work.wait();
  done.get(20s);
  CHECK(called);
}

std::vector<int> everybody(const World& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

void refuse_world(World& world) {
  call_back(world.group(), [&] {
    CHECK_THROWS(UsageError, world.destroy(), "in a callback", "remedy", "World::destroy");
    CHECK(!world.is_destroyed());
  });
  // So it is where the value has been there before.
  Work done = world.group().barrier_async();
  done.wait();
  done.get_future()
      .then([&](const std::vector<BufferView>&) {
        CHECK_THROWS(UsageError, world.destroy(), "in a callback");
      })
      .get();
  expect_works(world.group());
  expect_works(world.new_group(everybody(world)));
  world.destroy();
  // There is nothing left that a callback could end.
  world.destroy();
}

void refuse_world_in_hook(World& world) {
  std::atomic<int> refused{0};
  world.group().on_completion([&](const CompletionInfo&) {
    CHECK_THROWS(UsageError, world.destroy(), "in a callback");
    ++refused;
  });
  expect_works(world.group());
  CHECK(refused == 1);
  call_back(world.group(), [] {});
  world.group().wait_for_pending_works();
  CHECK(refused == 2);
  world.destroy();
}

// A destructor cannot refuse: the world stays until the process ends, and says so.
void keep_world_of_lost_handle(std::unique_ptr<World> world) {
  ProcessGroup group = world->group();
  call_back(group, [&] { world.reset(); });
  expect_works(group);
  call_back(group, [] {});
  // Of hymn nothing ends MPI any more.
  MPI_Finalize();
}

void refuse_world_while_making(World& world) {
  std::atomic<bool> refused{false};
  world.new_group_async(everybody(world))
      .then([&](const ProcessGroup& group) {
        CHECK_THROWS(UsageError, world.destroy(), "in a callback");
        expect_works(group);
        refused = true;
      })
      .get(20s);
  CHECK(refused);
}

// A group can end wherever it is; what is still in flight on it is waited for.
void end_group(World& world) {
  ProcessGroup group = world.new_group(everybody(world));
  std::vector<float> more(100'000, 1);
  Work later;
  call_back(group, [&] {
    later = group.all_reduce_async(more);
    group.destroy();
    CHECK(group.is_destroyed());
  });
  CHECK(later.is_completed() && !later.error());
  CHECK(more[0] == static_cast<float>(world.size()));
  CHECK_THROWS(UsageError, group.barrier(), "destroyed");
  expect_works(world.group());
}

// So can one be made of those that are left.
void shrink_group(World& world) {
  ProcessGroup group = world.new_group(everybody(world));
  ProcessGroup left;
  call_back(group, [&] { left = group.shrink(); });
  CHECK(group.is_aborted());
  expect_works(left);
}

void run(std::string_view what) {
  if (what == "handle") {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  }
  auto world = std::make_unique<World>(WorldOptions{.timeout = 20s});
  if (what == "world") return refuse_world(*world);
  if (what == "hook") return refuse_world_in_hook(*world);
  if (what == "handle") return keep_world_of_lost_handle(std::move(world));
  if (what == "making") return refuse_world_while_making(*world);
  if (what == "group") return end_group(*world);
  if (what == "shrink") return shrink_group(*world);
  CHECK(false);
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_told(argc, argv, hymn::test::run); }
