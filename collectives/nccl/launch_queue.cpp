#include "collectives/nccl/launch_queue.hpp"

#include <algorithm>
#include <utility>

namespace hymn {

void LaunchQueue::add(GpuLaunch& launch) {
  GpuDevice& gpu = launch.gpu();
  const OrderingDomain& domain = launch.request_.domain;
  if (domain.kind == OrderingDomain::Kind::host) {
    launch.stream_ = launch.own_stream();
  } else {
    launch.stream_ = static_cast<cuda_api::Stream>(domain.stream);
    launch.is_captured_ = gpu.is_capturing(launch.stream_);
  }
  std::lock_guard lock(mutex_);
  launch.begin();
  lanes_[launch.is_message() ? launch.stream_ : nullptr].waiting.push_back(&launch);
}

void LaunchQueue::advance() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (auto& [stream, lane] : lanes_) advance(lane);
  std::erase_if(lanes_, [](const auto& lane) { return lane.second.is_empty(); });
}

void LaunchQueue::advance(Lane& lane) {
  while (!lane.is_empty()) {
    try {
      if (!launch_first(lane)) return;
    } catch (...) {
      // What fails concerns those alone that it was done for.
      std::vector<GpuLaunch*> concerned = std::exchange(lane.calling, {});
      if (concerned.empty()) {
        concerned.push_back(lane.asked);
        std::erase(lane.waiting, lane.asked);
      }
      for (GpuLaunch* const launch : concerned) {
        launch->error_ = std::current_exception();
        launch->stage_.store(GpuLaunch::Stage::failed, std::memory_order_release);
      }
    }
  }
}

// NCCL takes no call on a communicator before it is through with the one before.
bool LaunchQueue::launch_first(Lane& lane) {
  if (lane.calling.empty()) {
    const bool is_message = lane.waiting.front()->is_message();
    const std::size_t count = is_message ? lane.waiting.size() : 1;
    const std::vector<GpuLaunch*> together(
        lane.waiting.begin(), lane.waiting.begin() + static_cast<std::ptrdiff_t>(count));
    if (!are_ready(lane, together)) return false;
    lane.waiting.erase(lane.waiting.begin(),
                       lane.waiting.begin() + static_cast<std::ptrdiff_t>(count));
    lane.calling = together;
    for (GpuLaunch* const launch : lane.calling)
      launch->stage_.store(GpuLaunch::Stage::calling, std::memory_order_release);
    enqueue(lane.calling);
  }
  if (!are_ready(lane, lane.calling)) return false;
  for (GpuLaunch* const launch : lane.calling) settle(*launch);
  lane.calling.clear();
  return true;
}

// All are asked, so that all go on.
bool LaunchQueue::are_ready(Lane& lane, std::span<GpuLaunch* const> together) {
  bool all = true;
  for (GpuLaunch* const launch : together) {
    lane.asked = launch;
    all = launch->is_ready() && all;
  }
  return all;
}

void LaunchQueue::enqueue(std::span<GpuLaunch* const> together) {
  const GpuDevice::Entry entry(together.front()->gpu());
  if (together.size() == 1) {
    together.front()->enqueue();
    return;
  }
  // Only NCCL has messages.
  std::vector<NcclMessage> messages;
  for (const GpuLaunch* const launch : together)
    messages.push_back(static_cast<const NcclLaunch*>(launch)->message());
  launch_nccl_together(messages);
}

// Nobody asks after what was captured: it happens when the graph runs, perhaps often.
void LaunchQueue::settle(GpuLaunch& launch) {
  if (!launch.is_captured_) {
    launch.event_ = launch.gpu().mark(launch.stream_);
    launch.took_off();
  }
  launch.stage_.store(GpuLaunch::Stage::enqueued, std::memory_order_release);
}

void LaunchQueue::remove(GpuLaunch& launch) {
  std::lock_guard lock(mutex_);
  for (auto& [stream, lane] : lanes_) {
    std::erase(lane.waiting, &launch);
    std::erase(lane.calling, &launch);
  }
}

}  // namespace hymn
