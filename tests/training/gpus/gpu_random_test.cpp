// Random models on GPUs, options and iterations against what one process computes of all ranks.
#include "tests/support/seeds.hpp"
#include "tests/training/gpus/spread.hpp"
#include "tests/training/random_play.hpp"

namespace hymn::test {
namespace {

TEST(GpuRandomReducer, DoesAsOneProcess) {
  const std::uint64_t first = first_seed();
  const auto cases = std::stoull(word_from("TEST_CASES", "12"));
  for (const auto& [ranks, each] : {std::pair(2, 1), std::pair(2, 2), std::pair(3, 2)}) {
    Spread toys(ranks, each);
    for (std::uint64_t seed = first; seed < first + cases; ++seed)
      toys.run([&](World& world) {
        play_random(world, seed,
                    {.memory =
                         [&](std::size_t parameter) {
                           const auto k = static_cast<int>((parameter + seed) % 7) % toys.each();
                           return toys.memory_of(toys.gpu(world, k));
                         },
                     .stream = seed % 2 == 0 ? toys.streams() : nullptr,
                     .synchronize = [&] { toys.synchronize(world); }});
      });
    EXPECT_EQ(toys.gpus.open_allocations(), 0);
  }
}

}  // namespace
}  // namespace hymn::test
