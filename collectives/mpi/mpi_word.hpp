// What members must call alike for MPI to take no message of one call for another's.
#pragma once

#include <cstdint>

#include "collectives/operation.hpp"

namespace hymn {

/// Of one call, as MpiTraffic::note_collective() takes it.
std::uint64_t mpi_word_of(const Call& call);

}  // namespace hymn
