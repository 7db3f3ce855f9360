// Which collectives hymn carries more quickly than MPI.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/calls.hpp"
#include "preload/reasons.hpp"

namespace hymn::preload {

/// What all ranks of a collective know of its sizes before it.
enum class Sizes : std::uint8_t {
  known,    ///< that of one block, or of what each rank has
  total,    ///< that of all blocks together
  unknown,  ///< nothing: no rank knows what all others move, or the root alone does
};
constexpr Sizes sizes_of(Call call) {
  if (call == Call::Allgatherv || call == Call::Reduce_scatter) return Sizes::total;
  if (call == Call::Alltoallv || call == Call::Gatherv || call == Call::Scatterv)
    return Sizes::unknown;
  return Sizes::known;
}

/// What all ranks of a collective see alike.
struct Sight {
  Call call;
  int ranks = 0;
  std::size_t hosts = 1;
  /// As it travels, of what sizes_of() says; 0 where that is unknown.
  std::size_t bytes = 0;
};

/// The time that hymn takes, in the time that MPI takes, once all bytes are known (0: they are
/// not); 1 where that has not been measured.
double expected_ratio(const Sight& sight);

/// Reason::carried, or why not.
Reason judge(const Sight& sight);

}  // namespace hymn::preload
