// Which group of hymn's carries the tensors of a process group that are on a GPU.
#include "device_groups.hpp"

#include <cstdint>
#include <cstdio>
#include <string>

#include "errors.hpp"
#include "gil.hpp"

namespace hymn_torch {

hymnGroup_t DeviceGroups::for_collective(int gpu) {
  if (const hymnGroup_t found = find(gpu)) return found;
  const WithoutGil waiting;
  const std::lock_guard<std::mutex> settle(settling_);
  if (const hymnGroup_t found = find(gpu)) return found;
  // Where hymn has no GPU at all its own error tells more.
  const bool makes_one = is_anyone_elsewhere(own_ >= 0 && gpu != own_);
  const hymnGroup_t group = makes_one ? make_(gpu) : of_;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!given_up_.empty() && group != of_) hymnGroupAbort(group, given_up_.c_str());
  return by_gpu_.emplace(gpu, group).first->second;
}

hymnGroup_t DeviceGroups::find(int gpu) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_gpu_.find(gpu);
  return found == by_gpu_.end() ? nullptr : found->second;
}

void DeviceGroups::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    given_up_ = reason;
  }
  for_each([&reason](hymnGroup_t group) { hymnGroupAbort(group, reason.c_str()); });
}

bool DeviceGroups::is_anyone_elsewhere(bool am_elsewhere) const {
  int32_t elsewhere = am_elsewhere ? 1 : 0;
  check(hymnAllReduce(&elsewhere, &elsewhere, 1, hymnInt32, hymnMax, of_, nullptr));
  return elsewhere != 0;
}

hymnGroup_t DeviceGroups::for_message(int gpu) {
  if (const hymnGroup_t found = find(gpu)) return found;
  if (own_ < 0 || gpu == own_) return of_;
  throw_value_error("hymn: a message of a tensor on cuda:" + std::to_string(gpu) +
                    ", but hymn has chosen GPU " + std::to_string(own_) +
                    " for this rank; make a collective of tensors on that GPU first, on all ranks "
                    "of the group, or choose it by HYMN_GPU");
}

void DeviceGroups::for_each(const std::function<void(hymnGroup_t)>& act) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [gpu, group] : by_gpu_)
    if (group != of_) act(group);
}

void DeviceGroups::free() noexcept {
  for_each([](hymnGroup_t group) {
    if (hymnGroupFree(group) != hymnSuccess)
      std::fprintf(stderr, "hymn-torch warning: ending a group: %s\n", hymnGetLastError());
  });
  by_gpu_.clear();
}

}  // namespace hymn_torch
