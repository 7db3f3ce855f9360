// Messages of which collectives are made, each rank with each: what that costs over the transports
// that reach everybody.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn::pairwise_models {

extern const AlgorithmModel over_mpi;
extern const AlgorithmModel over_tcp;
extern const AlgorithmModel over_exchange;

}  // namespace hymn::pairwise_models
