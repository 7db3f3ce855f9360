// What it costs to carry through memory of the host what lies in that of GPUs.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn {

extern const AlgorithmModel staged_model;

}  // namespace hymn
