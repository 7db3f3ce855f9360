// What collectives across hosts cost.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn {

extern const AlgorithmModel hierarchical_model;

}  // namespace hymn
