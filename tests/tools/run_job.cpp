// A program for `hymn run`: what its ranks are, and what becomes of them.
//   run_job hello          each makes a world, and ends
//   run_job sum            each prints the sum of 1 to the number of ranks, and has no MPI
//   run_job worlds         makes three worlds, one after the other and beside each other
//   run_job kill RANK      one kills itself, the others wait for it and go on without it
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hymn/hymn.hpp"

namespace {

int sum_over(hymn::ProcessGroup& group) {
  std::int32_t sum = group.rank() + 1;
  group.all_reduce(hymn::view_of(sum));
  return sum;
}

void print_sum() {
  hymn::World world;
  std::printf("rank %d of %d: %d\n", world.rank(), world.size(), sum_over(world.group()));
  int has_mpi = 0;
  MPI_Initialized(&has_mpi);
  if (has_mpi != 0) std::printf("rank %d has MPI\n", world.rank());
}

void make_worlds() {
  {
    hymn::World first;
    sum_over(first.group());
  }
  hymn::World second;
  hymn::World third;
  const int sum = sum_over(second.group()) + sum_over(third.group());
  std::printf("%d\n", sum);
}

void lose(int victim) {
  hymn::World world;
  world.group().barrier();
  if (world.rank() == victim) std::raise(SIGKILL);
  try {
    world.group().barrier();
  } catch (const hymn::Error& error) {
    const auto& missing = error.context().missing;
    hymn::ProcessGroup left = world.group().shrink();
    std::printf("without %d: %d\n", missing.empty() ? -1 : missing.front(), sum_over(left));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (std::strcmp(what, "hello") == 0) std::printf("rank %d\n", hymn::World().rank());
  if (std::strcmp(what, "sum") == 0) print_sum();
  if (std::strcmp(what, "worlds") == 0) make_worlds();
  if (std::strcmp(what, "kill") == 0) lose(std::atoi(argv[2]));
  return 0;
}
