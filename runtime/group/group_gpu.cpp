#include "runtime/group/group_gpu.hpp"

#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn {

GroupGpu gpu_of(const ProcessGroup& group) {
  const DeviceReach& reach = detail::need(group).means().reach;
  return {reach.gpu, reach.why_not};
}

MemoryAt memory_at(const ProcessGroup& group, const void* pointer) {
  MemoryQuery* const memory = detail::need(group).world().settings.memory;
  return memory != nullptr ? memory->at(pointer) : MemoryAt{};
}

GroupOptions options_of(const ProcessGroup& group) {
  GroupOptions options = detail::need(group).options();
  options.timeout = group.timeout();
  return options;
}

}  // namespace hymn
