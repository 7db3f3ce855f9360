// What the algorithms over the shared memory of one host can do, and what they cost.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn::shm_models {

extern const AlgorithmModel one_shot;
extern const AlgorithmModel swapped;
extern const AlgorithmModel shown;
extern const AlgorithmModel sharing;
extern const AlgorithmModel two_shot;
extern const AlgorithmModel slots;
extern const AlgorithmModel scan_slots;
extern const AlgorithmModel scatter_slots;  ///< which hold little
extern const AlgorithmModel flags;
extern const AlgorithmModel rings;
extern const AlgorithmModel pairwise;

}  // namespace hymn::shm_models
