// A training loop that loses ranks and goes on with the others; shrink_test.cpp starts it.
//   shrink_job STEPS SEED [RANK:STEP …]
// Each RANK kills itself about when it makes that step. The sums of all others are exact at each
// step, over exactly the ranks of the group; each survivor says at the end "rank 0: 2 left".
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "hymn/hymn.hpp"

namespace hymn::test {
namespace {

/// Within two milliseconds; some steps are made meanwhile.
void die_soon(unsigned seed) {
  const std::chrono::microseconds delay(std::minstd_rand(seed)() % 2000);
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    std::raise(SIGKILL);
  }).detach();
}

std::int64_t share_of(int rank, std::int64_t step) { return (rank + 1) * 1000003LL + step; }

void make_step(ProcessGroup& group, std::int64_t step, int rank) {
  // Long enough for every algorithm to be taken at one step or another.
  std::vector<std::int64_t> sums(static_cast<std::size_t>(1 + step * 37 % 5000),
                                 share_of(rank, step));
  group.all_reduce(sums);
  std::int64_t right = 0;
  for (const int member : group.membership().ranks) right += share_of(member, step);
  for (const std::int64_t sum : sums)
    if (sum != right) {
      std::printf("rank %d: step %lld gives %lld in place of %lld\n", rank,
                  static_cast<long long>(step), static_cast<long long>(sum),
                  static_cast<long long>(right));
      std::fflush(stdout);
      std::abort();
    }
}

/// The members that are left; `step` becomes the furthest one that any of them has failed in.
ProcessGroup recover(ProcessGroup group, std::int64_t& step) {
  for (int tries = 0;; ++tries) {
    try {
      group = group.shrink();
      std::int64_t furthest = step;
      group.all_reduce(view_of(furthest), ReduceOp::max);
      step = furthest;
      return group;
    } catch (const Error& error) {
      std::fprintf(stderr, "in recovery: %s\n", error.what());
      if (tries == 10) throw;
    }
  }
}

/// The step at which this rank is to die, or -1.
std::int64_t last_step(int rank, int argc, char** argv) {
  for (int i = 3; i < argc; ++i)
    if (std::atoi(argv[i]) == rank) return std::atoll(std::strchr(argv[i], ':') + 1);
  return -1;
}

void train(int argc, char** argv) {
  World world;
  const std::int64_t steps = std::atoll(argv[1]);
  const std::int64_t last = last_step(world.rank(), argc, argv);
  ProcessGroup group = world.group();
  for (std::int64_t step = 1; step <= steps;) {
    if (step == last) die_soon(static_cast<unsigned>(std::atoi(argv[2]) + world.rank()));
    if (last > 0 && step == last + 20) std::this_thread::sleep_for(std::chrono::minutes(1));
    try {
      make_step(group, step, world.rank());
      ++step;
    } catch (const Error& error) {
      std::fprintf(stderr, "rank %d, step %lld: %s\n", world.rank(), static_cast<long long>(step),
                   error.what());
      group = recover(group, step);
    }
  }
  group.barrier();
  std::printf("rank %d: %d left\n", world.rank(), group.size());
  std::fflush(stdout);
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    hymn::test::train(argc, argv);
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
  return 0;
}
