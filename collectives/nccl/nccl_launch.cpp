#include "collectives/nccl/nccl_launch.hpp"

#include <vector>

namespace hymn {

void NcclLaunch::enqueue_together(std::span<GpuLaunch* const> together) {
  std::vector<NcclMessage> messages;
  for (GpuLaunch* const launch : together)
    messages.push_back(static_cast<NcclLaunch*>(launch)->message());
  launch_nccl_together(messages);
}

}  // namespace hymn
