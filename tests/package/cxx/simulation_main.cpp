// The smallest user of hymn::simulation: two ranks in this process, under one schedule.
#include <cstdio>
#include <hymn/hymn.hpp>
#include <hymn/simulation.hpp>

int main() {
  const auto result = hymn::simulate({.ranks = 2, .seed = 1}, [](hymn::World& world) {
    float sum = static_cast<float>(world.rank() + 1);
    world.group().all_reduce(sum);
    std::printf("rank %d of %d: sum %g\n", world.rank(), world.size(), sum);
  });
  return result.ok() ? 0 : 1;
}
