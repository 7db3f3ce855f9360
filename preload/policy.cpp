#include "preload/policy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

namespace hymn::preload {
namespace {

/// Bytes that were measured: 8, 32, 128, … 512 K. What lies between goes by the nearest.
constexpr std::size_t size_count = 9;

/// The time of hymn in that of MPI, where all ranks have blocks of that size.
struct Measured {
  Call call;
  int ranks;
  std::array<float, size_count> ratios;
};

// Made by bench/preload/measure: on which machine, when, and beside which MPI it tells itself.
constexpr Measured measured[] = {
#include "preload/measured.inc"
};

/// Below that what differs from machine to machine, and from run to run, does not count.
constexpr double carried_below = 0.9;

/// Those that gain from shared memory inside each of several hosts. The others have not been
/// measured.
constexpr Call across_hosts[] = {Call::Allreduce, Call::Reduce, Call::Bcast, Call::Barrier};

bool gains_across_hosts(const Sight& sight) {
  return sight.hosts < static_cast<std::size_t>(sight.ranks) &&
         std::ranges::find(across_hosts, sight.call) != std::end(across_hosts);
}

/// So many ranks were measured.
int nearest_ranks(int ranks) { return ranks <= 2 ? 2 : ranks <= 5 ? 4 : 8; }

/// By which of the sizes what has so many bytes goes.
std::size_t nearest_size(std::size_t bytes) {
  // 8 is 2^3, and each next one is four times as much; half of that on either side.
  const auto twice = static_cast<std::size_t>(std::bit_width(bytes));
  return std::min(twice <= 4 ? 0 : (twice - 3) / 2, size_count - 1);
}

/// Null: it has not been measured.
const Measured* find(const Sight& sight) {
  const int ranks = nearest_ranks(sight.ranks);
  const auto* const found = std::ranges::find_if(
      measured, [&](const Measured& one) { return one.call == sight.call && one.ranks == ranks; });
  return found == std::end(measured) ? nullptr : found;
}

double ratio_inside(const Sight& sight) {
  const Measured* const found = find(sight);
  if (found == nullptr) return 1;
  switch (sizes_of(sight.call)) {
    case Sizes::known:
      return found->ratios[nearest_size(sight.bytes)];
    case Sizes::total:
      return found->ratios[nearest_size(sight.bytes / static_cast<std::size_t>(sight.ranks))];
    case Sizes::unknown:
      return *std::ranges::max_element(found->ratios);
  }
  return 1;
}

}  // namespace

double expected_ratio(const Sight& sight) {
  if (sight.hosts > 1) return 1;
  if (sizes_of(sight.call) != Sizes::unknown) return ratio_inside(sight);
  const Measured* const found = find(sight);
  if (found == nullptr || sight.bytes == 0) return 1;
  return found->ratios[nearest_size(sight.bytes / static_cast<std::size_t>(sight.ranks))];
}

Reason judge(const Sight& sight) {
  if (sight.hosts > 1 && !gains_across_hosts(sight)) return Reason::not_quicker;
  return ratio_inside(sight) < carried_below ? Reason::carried : Reason::not_quicker;
}

}  // namespace hymn::preload
