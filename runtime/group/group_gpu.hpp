// What libraries above hymn's ask of a group beside its public interface: where memory is, and what
// the group does with GPUs.
#pragma once

#include <memory>
#include <string>

#include "base/private.hpp"
#include "gpu/gpu_device.hpp"
#include "gpu/memory_query.hpp"
#include "hymn/process_group.hpp"

namespace hymn {

/// The GPU that the group works on, on this rank.
struct GroupGpu {
  std::shared_ptr<GpuDevice> device;  ///< null: none
  std::string why_not;                ///< empty: no GPU is here
};
HYMN_PRIVATE GroupGpu gpu_of(const ProcessGroup& group);

/// As the driver that the group's world works with knows it; memory of the host where there is
/// none.
HYMN_PRIVATE MemoryAt memory_at(const ProcessGroup& group, const void* pointer);

/// With which it was made, as they are in force now.
HYMN_PRIVATE GroupOptions options_of(const ProcessGroup& group);

}  // namespace hymn
