// Collectives, sends and receives of a group over NCCL.
#pragma once

#include <memory>
#include <string>

#include "collectives/algorithm.hpp"
#include "collectives/cuda/gpu_kernels.hpp"
#include "collectives/nccl/channel.hpp"

namespace hymn {

/// `in_float32`: reductions of float16 and bfloat16 are left to make_float32_nccl_algorithm()'s.
std::unique_ptr<Algorithm> make_nccl_algorithm(std::shared_ptr<NcclChannel> channel,
                                               bool in_float32 = false);

/// Reductions of float16 and bfloat16 in float32, rounded once, on a GPU that has memory in the
/// order of streams.
std::unique_ptr<Algorithm> make_float32_nccl_algorithm(std::shared_ptr<NcclChannel> channel,
                                                       std::shared_ptr<cuda::GpuKernels> kernels);

}  // namespace hymn
