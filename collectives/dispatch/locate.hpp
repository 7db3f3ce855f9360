// Where the buffers of a request are, as the driver knows it, and whether its group reaches them.
#pragma once

#include <memory>
#include <string>

#include "collectives/cuda/device_nan.hpp"
#include "gpu/gpu_device.hpp"
#include "gpu/memory_query.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// What a group can do with the memory of GPUs.
struct DeviceReach {
  std::shared_ptr<GpuDevice> gpu{};        ///< this rank's in the group; null: none is reached
  std::string why_not{};                   ///< empty: no GPU is here
  std::shared_ptr<cuda::DeviceNan> nan{};  ///< where there is a GPU
};

/// The request, whose views say where their buffers are; null where they say so already. `memory`
/// knows pointers; null: all are where their views say.
///
/// Throws UsageError for buffers in different memories, of another GPU than this rank's in the
/// group, in none that the driver knows although they should be on a GPU, that do not begin at a
/// whole element, and for a stream without such buffers or of another GPU; UnsupportedError where
/// the group reaches no memory of GPUs.
///
/// `is_root`: whether this rank is the request's root.
std::shared_ptr<const Request> locate(const Request& request, bool is_root, MemoryQuery* memory,
                                      const DeviceReach& reach);

/// Throws UnsupportedError where the group reaches no GPU, UsageError for a stream of another GPU.
void require_own_stream(void* stream, const DeviceReach& reach);

}  // namespace hymn
