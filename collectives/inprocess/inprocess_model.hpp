// What collectives of ranks that are threads cost.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn {

extern const AlgorithmModel inprocess_model;

}  // namespace hymn
