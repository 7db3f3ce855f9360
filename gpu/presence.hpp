// What of GPUs is here, and why not what is not.
#pragma once

#include <string>

#include "base/private.hpp"
#include "gpu/gpu_functions.hpp"
#include "gpu/nccl_library.hpp"

namespace hymn {

/// In words for people, each one line: "none (…)" tells why something is not there.
struct GpuPresence {
  std::string driver;  ///< "CUDA 13.0"
  std::string gpus;    ///< "8"
  std::string nvml;    ///< "found"
  std::string nccl;    ///< "2.28.9"
};

/// Initialises the driver, but creates no context on a GPU. Never throws for want of something.
GpuPresence describe_presence(const GpuFunctions& functions, const NcclLibrary& nccl);

/// Why this process can use no GPU; empty: it can use at least one.
HYMN_PRIVATE std::string why_no_gpus(const GpuFunctions& functions);

}  // namespace hymn
