// Jobs of three ranks that hang, or fail, each in one way; hang_test.cpp starts them, and looks at
// what hymn says of them.
//   hang_job WAY FOLDER
// FOLDER/pid0 … tell the processes, FOLDER/failed0 … that they have told their error; a rank that
// is elsewhere stays there until FOLDER/go is there.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/mpi/directed_job.hpp"

namespace hymn::test {
namespace {

void sum(ProcessGroup& group, std::size_t count) {
  std::vector<float> values(count, 1.0f);
  group.all_reduce(values);
}

/// Until its director lets it go.
void be_elsewhere() { wait_for("go"); }

// Rank 2 is the one that errs.

void other_count(ProcessGroup& group, int rank) {
  if (rank == 2) return sum(group, 1000);
  sum(group, 100000);
}

void other_call(ProcessGroup& group, int rank) {
  if (rank == 2) return group.barrier();
  sum(group, 100000);
}

void never_calls(ProcessGroup& group, int rank) {
  if (rank == 2) return be_elsewhere();
  sum(group, 4);
}

/// The others tell their processes when they have come out of the first call.
void wait_for_the_others() {
  for (const char* const file : {"pid0", "pid1"}) wait_for(file);
}

void killed(ProcessGroup& group, int rank) {
  if (rank != 2) return sum(group, 4);
  wait_for_the_others();
  std::raise(SIGKILL);
}

void exits(ProcessGroup& group, int rank) {
  if (rank != 2) return sum(group, 4);
  wait_for_the_others();
  std::exit(7);
}

void stopped(ProcessGroup& group, int rank) {
  if (rank == 2) std::raise(SIGSTOP);
  sum(group, 4);
}

// A ring of messages that rank 0 never sends into. Rank 2 comes to its limit first: when rank 1 has
// given up, and left, it is that which is told.
void ring(ProcessGroup& group, int rank) {
  if (rank == 0) std::raise(SIGSTOP);
  std::vector<float> values(4);
  group.recv(values, rank - 1, 0, {.timeout = std::chrono::seconds(rank == 2 ? 7 : 30)});
  group.send(values, (rank + 1) % group.size());
}

void throws(ProcessGroup& group, int rank) {
  if (rank == 2) throw std::runtime_error("no luck");
  sum(group, 4);
}

void other_tag(ProcessGroup& group, int rank) {
  std::vector<float> values(1 << 20);
  if (rank == 1) group.send(values, 2, 3);
  if (rank == 2) group.recv(values, 1, 5);
  group.barrier();
}

void too_long(ProcessGroup& group, int rank) {
  std::vector<float> values(rank == 1 ? 100 : 10);
  if (rank == 1) group.send(values, 2, 3);
  if (rank == 2) group.recv(values, 1, 3);
  group.barrier();
}

// Somebody waits for an operation that was started before.
void waits(ProcessGroup& group, int rank) {
  if (rank == 2) return be_elsewhere();
  std::vector<float> values(4);
  Work work = group.all_reduce_async(values);
  work.wait();
}

// --- Outside of calls: rank 2 comes late.

void late_group(World& world) {
  if (world.rank() == 2) be_elsewhere();
  world.new_group({0, 1, 2}, {.description = "late"}).barrier();
}

void late_shrink(World& world) {
  if (world.rank() == 2) be_elsewhere();
  world.group().shrink().barrier();
}

void well(ProcessGroup& group, int) { sum(group, 4); }

int hang(const std::string& way) {
  const std::map<std::string, void (*)(ProcessGroup&, int)> ways = {{"other_count", other_count},
                                                                    {"other_call", other_call},
                                                                    {"never_calls", never_calls},
                                                                    {"killed", killed},
                                                                    {"exits", exits},
                                                                    {"stopped", stopped},
                                                                    {"ring", ring},
                                                                    {"throws", throws},
                                                                    {"other_tag", other_tag},
                                                                    {"too_long", too_long},
                                                                    {"waits", waits},
                                                                    {"well", well}};
  const std::map<std::string, void (*)(World&)> late_ways = {{"late_group", late_group},
                                                             {"late_shrink", late_shrink}};
  World world;
  ProcessGroup group = world.new_group({0, 1, 2}, {.description = "dp"});
  sum(group, 4);
  // Of those who wait for rank 2 it is rank 0 that tells of it, if it does not come late itself.
  if (world.rank() == 1) wait_for("pid0");
  write_pid(world.rank());
  try {
    if (late_ways.contains(way))
      late_ways.at(way)(world);
    else
      ways.at(way)(group, world.rank());
  } catch (const Error& error) {
    std::printf("rank %d: %s error: %s\n", world.rank(), to_string(error.kind()), error.what());
    std::fflush(stdout);
    write_file("failed" + std::to_string(world.rank()), 1);
    return 3;
  }
  return 0;
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_directed(argc, argv, hymn::test::hang); }
