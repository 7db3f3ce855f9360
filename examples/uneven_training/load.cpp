#include "examples/uneven_training/load.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

namespace uneven {
namespace {

void share(hymn::World& world, Samples& samples) {
  std::array<std::uint64_t, 3> sizes = {samples.features, samples.classes, samples.size()};
  world.group().broadcast(sizes, 0);
  samples.features = sizes[0];
  samples.classes = sizes[1];
  samples.labels.resize(sizes[2]);
  samples.values.resize(sizes[0] * sizes[2]);
  world.group().broadcast(samples.labels, 0);
  world.group().broadcast(samples.values, 0);
}

}  // namespace

std::optional<Split> load(hymn::World& world, const std::string& csv, std::uint64_t seed) {
  Split data;
  int good = 1;
  if (world.rank() == 0) {
    try {
      const Samples all = read_csv(csv);
      data = split(all, seed);
      if (data.test.size() == 0)
        throw std::runtime_error(fmt::format("{}: {} samples are too few", csv, all.size()));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.what());
      good = 0;
    }
  }
  world.group().broadcast(hymn::view_of(good), 0);
  if (good == 0) return {};
  share(world, data.training);
  share(world, data.test);
  return data;
}

}  // namespace uneven
