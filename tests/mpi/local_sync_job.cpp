// A member fails while the members of a group make it alone; local_sync_test.cpp starts it.
//   local_sync_job before|waits|creates|absent:VICTIM
// Ranks 1 to 3 make a group, of which rank 0 hears nothing. The victim is killed before it calls,
// or while it waits for the others, or in the midst of MPI's call; or it does not call. The others
// get an error that names it, go on with a group of their own, and say so.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/mpi/check.hpp"
#include "tests/support/create_group.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const std::vector<int> members = {1, 2, 3};

void die() { std::raise(SIGKILL); }

void die_soon() {
  std::thread([] {
    std::this_thread::sleep_for(200ms);
    die();
  }).detach();
}

/// What the victim does; true: it is still there, and takes no part.
bool meet(const std::string& fate) {
  if (fate == "absent") return true;
  if (fate == "before") die();
  if (fate == "waits") die_soon();
  if (fate == "creates") create_group().before = die;
  return false;
}

void expect_named(World& world, const std::string& fate, int victim) {
  const auto began = std::chrono::steady_clock::now();
  const std::string name = "rank " + std::to_string(victim) + " (";
  const bool lives = fate == "absent";
  const GroupOptions options{.init_timeout = lives ? Timeout(5s) : Timeout(), .local_sync = true};
  const auto make = [&] { world.new_group(members, options); };
  if (lives)
    CHECK_THROWS(TimeoutError, make(), name);
  else
    CHECK_THROWS(PeerError, make(), name, ") is dead: ");
  CHECK(std::chrono::steady_clock::now() - began < 15s);
}

void run(const std::string& told) {
  const std::string fate = told.substr(0, told.find(':'));
  const int victim = std::stoi(told.substr(told.find(':') + 1));
  World world;
  world.group().barrier();
  const auto say = [&] { std::printf("rank %d has gone on\n", world.rank()); };
  if (world.rank() == 0) return say();
  std::vector<int> left = members;
  std::erase(left, victim);
  if (world.rank() == victim) {
    if (!meet(fate)) world.new_group(members, {.local_sync = true});
    // It can still make others.
    CHECK(fate == "absent");
    world.new_group({victim}, {.local_sync = true}).barrier();
    return say();
  }
  // The victim is there first, and is gone by then.
  if (fate == "waits") std::this_thread::sleep_for(6s);
  expect_named(world, fate, victim);
  ProcessGroup survivors = world.new_group(left, {.local_sync = true});
  std::int64_t sum = world.rank();
  survivors.all_reduce(view_of(sum));
  CHECK(sum == 6 - victim);
  say();
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_told(argc, argv, hymn::test::run); }
