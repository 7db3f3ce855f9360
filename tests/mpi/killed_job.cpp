// A job that mixes collectives for ever, until one of its ranks is killed; kill_test.sh starts it
// and looks at how it ends, and at what it leaves.
//   killed_job SEED VICTIM MICROSECONDS early|late
// The rank VICTIM ends by SIGKILL so long after MPI has come up (early: also while the world and
// its groups are made), or after the groups were made (late). Each of the others says how it
// noticed: "survivor RANK: KIND: TEXT". Three seeds of four use shared memory alone, where it is.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/mpi/check.hpp"
#include "tests/support/mixed_run.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

std::string path_for(World& world, std::uint64_t seed) {
  if (seed % 4 == 0) return "";
  for (const Road& road : roads_of(world.group(), OpType::all_reduce))
    if (road.path == "shm") return road.path;
  return "";
}

void die_after(std::chrono::microseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    std::raise(SIGKILL);
  }).detach();
}

/// `ready` is called when all groups are there, on all ranks.
void mix_for_ever(std::uint64_t seed, const std::function<void()>& ready) {
  World world({.timeout = std::chrono::seconds(15)});
  // It stays: where it fails, operations are in flight for longer than this function runs.
  auto* run = new MixedRun(world, seed, path_for(world, seed));
  // Short from now on: making things takes its time where other programs want the processors, too.
  const Timeout limit = std::chrono::milliseconds(500);
  run->set_timeout(limit);
  world.group().barrier();
  ready();
  while (true) {
    run->run(30);
    world.group().barrier({.timeout = limit});  // else not every rank would need every other
  }
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  using namespace hymn::test;
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 5) return 2;
  int level = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  const bool is_victim = rank == std::atoi(argv[2]);
  const std::chrono::microseconds delay(std::atoi(argv[3]));
  const bool early = std::string_view(argv[4]) == "early";
  if (is_victim && early) die_after(delay);
  try {
    mix_for_ever(std::strtoull(argv[1], nullptr, 10), [&] {
      if (is_victim && !early) die_after(delay);
    });
  } catch (const hymn::Error& error) {
    // The others may have given up on a rank that is only late: it waits for its end.
    while (is_victim) std::this_thread::sleep_for(std::chrono::seconds(1));
    std::printf("survivor %d: %s: %s\n", rank, to_string(error.kind()), error.what());
  }
  return 0;
}
