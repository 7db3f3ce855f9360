// Two faults of a program that show once in many runs, found by running it under schedules that a
// seed decides (docs/simulation.md): a deadlock of two groups, and a message that is lost. Each is
// told with the seed that repeats it, and with the one turn of the schedule that makes it happen.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <hymn/hymn.hpp>
#include <hymn/simulation.hpp>
#include <stdexcept>
#include <thread>

namespace {

using namespace std::chrono_literals;

/// Trains in one group, and counts samples in another, as soon as its reader has some. Whether it
/// has them before the training step or after is a matter of luck, and differs from rank to rank.
void train(hymn::World& world) {
  hymn::ProcessGroup gradients = world.new_group({0, 1}, {.description = "gradients"});
  hymn::ProcessGroup samples = world.new_group({0, 1}, {.description = "samples"});
  std::atomic<int> read = 0;
  std::jthread reader([&] { read = 32; });

  int count = 0;
  float gradient = 1;
  const bool has_samples = read != 0;
  if (has_samples) samples.all_reduce(count);
  gradients.all_reduce(gradient);
  if (!has_samples) samples.all_reduce(count);
}

/// Rank 1 asks for orders, and goes home when none has come. It need not ask for ever, it was
/// thought, for rank 0 sends one within a few microseconds.
void work_off(hymn::World& world) {
  int order = 7;
  if (world.rank() == 0) {
    std::this_thread::sleep_for(10us);
    world.group().send(order, 1);
    world.group().barrier();
    return;
  }
  int done = 0;
  for (int patience = 50; patience > 0 && done == 0; --patience)
    if (world.group().iprobe(0)) {
      world.group().recv(order, 0);
      ++done;
    }
  world.group().barrier();
  if (done == 0) throw std::runtime_error("an order was lost");
}

/// 0 where it was found, as it should be.
int find(const char* what, const hymn::SimulationOptions& options, void (*program)(hymn::World&)) {
  std::printf("--- %s\n", what);
  const auto failed = hymn::explore(options, 1000, program);
  if (!failed) {
    std::printf("nothing was found in 1000 seeds\n");
    return 1;
  }
  const hymn::SimulationResult least = hymn::shorten(options, *failed, program);
  std::printf("seed %llu fails; of %zu changes of its schedule, and %zu faults, these are left:\n",
              static_cast<unsigned long long>(failed->seed), failed->changes.size(),
              failed->faults.size());
  std::printf("%s\n", least.story().c_str());
  return 0;
}

}  // namespace

int main() {
  hymn::SimulationOptions options{.ranks = 2};
  int missed = find("a deadlock of two groups", options, train);
  options.random_faults = {.stalls = 1, .within = 50us, .longest = 1s};
  missed += find("a message that is lost when a rank is stopped for a moment", options, work_off);
  return missed;
}
