#include "runtime/group/device_barrier.hpp"

#include <fmt/format.h>

namespace hymn::detail {
namespace {

ErrorContext where(const GroupState& group, std::string remedy) {
  ErrorContext context = group.members().context("barrier");
  context.remedy = std::move(remedy);
  return context;
}

GpuDevice& need_gpu(const GroupState& group) {
  const DeviceReach& reach = group.means().reach;
  if (reach.gpu != nullptr) return *reach.gpu;
  throw UnsupportedError(
      fmt::format("a barrier is given device ids, but its group works on no GPU{}{}",
                  reach.why_not.empty() ? "" : ": ", reach.why_not),
      where(group, "leave the device ids out"));
}

}  // namespace

CallOptions on_devices(const GroupState& group, std::span<const int> device_ids,
                       const CallOptions& options) {
  CallOptions chosen = options;
  if (device_ids.empty() || !group.members().is_member()) return chosen;
  GpuDevice& gpu = need_gpu(group);
  for (const int id : device_ids)
    if (id != gpu.index())
      throw UsageError(
          fmt::format("a barrier is given GPU {}, but this rank works on GPU {}", id, gpu.index()),
          where(group,
                "give the GPU of the group (GroupOptions::gpu, or else World::gpu()), or none"));
  if (chosen.stream == nullptr) chosen.stream = gpu.stream_behind_default();
  return chosen;
}

void refuse_device_id(const GroupState& group, std::int64_t device_id) {
  throw UsageError(
      fmt::format("Invalid function argument: a barrier's device ids are a list, but {} is none",
                  device_id),
      where(group, fmt::format("give {{{}}}", device_id)));
}

}  // namespace hymn::detail
