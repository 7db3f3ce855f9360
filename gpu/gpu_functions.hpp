// The functions of the CUDA driver and of NVML, as tables that tests can fill.
#pragma once

#include <string>

#include "base/private.hpp"
#include "gpu/cuda_api.hpp"
#include "gpu/nvml_api.hpp"

namespace hymn {

/// A driver that counts more is out of its mind.
constexpr unsigned max_gpus_of_a_host = 1024;

struct GpuFunctions {
  cuda_api::Functions cuda;
  nvml_api::Functions nvml;
  std::string cuda_problem;  ///< why the library could not be loaded; empty: it was
  std::string nvml_problem;
};

/// Loads both libraries once and keeps them. Thread-safe.
HYMN_PRIVATE const GpuFunctions& loaded_gpu_functions();

}  // namespace hymn
