// Jobs whose ranks leave dumps; dump_test.cpp starts them, and looks at what they leave.
//   dump_job LIFE FOLDER
// FOLDER/pid0, FOLDER/pid1 … tell the processes; where a life waits for its director, it says so by
// FOLDER/ready0 … and goes on when FOLDER/go is there.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "hymn/hymn.hpp"
#include "tests/mpi/directed_job.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

void wait_for_director(const World& world) {
  write_file("ready" + std::to_string(world.rank()), 1);
  wait_for("go");
}

[[noreturn]] void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(1s);
}

void sum_matrices(World& world) {
  constexpr std::int64_t shape[] = {3, 4};
  std::vector<float> values(12, static_cast<float>(world.rank()));
  BufferView view(values);
  view.shape = shape;
  world.group().all_reduce(view);
}

// Both have made two sums.
void finished(World& world) {
  sum_matrices(world);
  sum_matrices(world);
  wait_for_director(world);
}

// Rank 0 makes a sum without the other one, which …
void sum_alone(World& world) {
  sum_matrices(world);
  if (world.rank() == 0) sum_matrices(world);
}

// … ends well; its world lives as long as the lives below let it.
void left_alone(World& world) { sum_alone(world); }

void timed(World& world) {
  world.enable_timing();
  sum_alone(world);
}

void asleep(World& world) {
  sum_alone(world);
  sleep_for_ever();
}

void exits(World& world) {
  sum_matrices(world);
  if (world.rank() == 1) std::exit(1);
  sum_matrices(world);
}

void killed(World& world) {
  sum_matrices(world);
  if (world.rank() == 1) std::raise(SIGKILL);
  sum_matrices(world);
}

// Rank 1 is stopped and continued by its director.
void stopped(World& world) {
  sum_matrices(world);
  if (world.rank() == 1) wait_for_director(world);
  sum_matrices(world);
  sum_matrices(world);
}

// The other ranks sleep while rank 0 asks for the dumps of all.
void asks(World& world) {
  sum_matrices(world);
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) wait_for("ready" + std::to_string(rank));
    world.dump("the program wants to know");
  }
  wait_for_director(world);
}

// Rank 0 waits, in destroy(), for what the others have not joined yet.
void ending(World& world) {
  sum_matrices(world);
  Work work;
  if (world.rank() == 0) work = world.group().barrier_async();
  if (world.rank() == 0) world.destroy();
  if (world.rank() != 0) wait_for_director(world);
  if (world.rank() != 0) world.group().barrier();
}

int live(const std::string& life) {
  const std::map<std::string, void (*)(World&)> lives = {
      {"finished", finished}, {"left_alone", left_alone}, {"timed", timed},     {"asleep", asleep},
      {"exits", exits},       {"killed", killed},         {"stopped", stopped}, {"asks", asks},
      {"ending", ending}};
  World world;
  write_pid(world.rank());
  lives.at(life)(world);
  return 0;
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_directed(argc, argv, hymn::test::live); }
