// What MPI's own collectives cost.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn {

extern const AlgorithmModel mpi_model;

}  // namespace hymn
