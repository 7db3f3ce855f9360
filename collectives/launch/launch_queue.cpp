#include "collectives/launch/launch_queue.hpp"

#include <algorithm>
#include <utility>

namespace hymn {

cuda_api::Event GpuLaunch::mark_what_is_there() noexcept {
  if (is_captured_) return nullptr;
  try {
    return gpu().mark(stream_);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void GpuLaunch::enqueue_together(std::span<GpuLaunch* const> together) {
  for (GpuLaunch* const launch : together) launch->enqueue();
}

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
  Lane& lane = lanes_[launch.lane()];
  lane.waiting.insert(place_of(launch, lane), &launch);
}

// Behind those that it was started with, though another thread has come between them.
std::deque<GpuLaunch*>::iterator LaunchQueue::place_of(const GpuLaunch& launch, Lane& lane) {
  const void* const whole = launch.coalesced_in();
  const auto before =
      std::find_if(lane.waiting.rbegin(), lane.waiting.rend(), [whole](const GpuLaunch* other) {
        return whole != nullptr && other->coalesced_in() == whole;
      });
  return before == lane.waiting.rend() ? lane.waiting.end() : before.base();
}

std::size_t LaunchQueue::count_together(const Lane& lane) {
  const GpuLaunch& first = *lane.waiting.front();
  if (first.is_message()) return lane.waiting.size();
  if (first.coalesced_in() == nullptr) return 1;
  const std::size_t count = first.together();
  const bool have_come = lane.waiting.size() >= count &&
                         lane.waiting[count - 1]->coalesced_in() == first.coalesced_in();
  return have_come ? count : 0;
}

bool LaunchQueue::has_collectives() const {
  const auto collectives = lanes_.find(GpuLaunch::LaneKey{});
  return collectives != lanes_.end() && !collectives->second.is_empty();
}

void LaunchQueue::advance() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (auto& [key, lane] : lanes_) advance(lane);
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
    const std::size_t count = count_together(lane);
    if (count == 0) return false;
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
  GpuLaunch& first = *together.front();
  const GpuDevice::Entry entry(first.gpu());
  if (together.size() == 1)
    first.enqueue();
  else
    first.enqueue_together(together);
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
  for (auto& [key, lane] : lanes_) {
    std::erase(lane.waiting, &launch);
    std::erase(lane.calling, &launch);
  }
}

}  // namespace hymn
