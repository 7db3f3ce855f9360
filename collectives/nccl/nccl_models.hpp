// What NCCL can do, and what it costs.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn::nccl_models {

extern const AlgorithmModel nccl;
extern const AlgorithmModel float32;  ///< halves are reduced in float32, and rounded once
/// all_reduce on several hosts: peer memory inside each, NCCL between them.
extern const AlgorithmModel hierarchical_nccl;

}  // namespace hymn::nccl_models
