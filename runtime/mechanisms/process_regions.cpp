#include "runtime/mechanisms/process_regions.hpp"

#include <algorithm>

namespace hymn {
namespace {

// The maker hands over right after all have offered: a longer wait helps nobody.
constexpr Duration longest_descriptor_passing = std::chrono::seconds(10);

}  // namespace

std::unique_ptr<DescriptorListener> ProcessRegions::take_spare() {
  const std::lock_guard lock(mutex_);
  return std::move(spare_);
}

Bytes ProcessRegions::open_listener(std::uint64_t uid) {
  auto listener = take_spare();
  if (!listener || !listener->is_reusable()) listener = DescriptorListener::open();
  Bytes address = listener->address();
  std::lock_guard lock(mutex_);
  coming_[uid].listener = std::move(listener);
  return address;
}

Bytes ProcessRegions::make(std::uint64_t uid, const RegionPlan& plan, int members) {
  auto maker = RegionMaker::make(plan, members);
  Bytes ticket = maker->ticket();
  std::lock_guard lock(mutex_);
  coming_[uid].maker = std::move(maker);
  return ticket;
}

void ProcessRegions::pass_descriptors(std::uint64_t uid, std::span<const Bytes> listeners) {
  std::lock_guard lock(mutex_);
  if (const auto& maker = coming_[uid].maker) maker->pass_descriptors(listeners);
}

std::unique_ptr<SharedRegion> ProcessRegions::join(std::uint64_t uid,
                                                   std::span<const std::byte> ticket,
                                                   const RegionPlan& plan, int members, int me,
                                                   Duration patience) {
  DescriptorListener* listener = nullptr;
  {
    std::lock_guard lock(mutex_);
    listener = coming_[uid].listener.get();
  }
  return join_region(ticket, plan, members, me, *listener,
                     std::min(patience, longest_descriptor_passing));
}

void ProcessRegions::settled(std::uint64_t uid) {
  std::lock_guard lock(mutex_);
  const auto found = coming_.find(uid);
  if (found == coming_.end()) return;
  // What may still come through it, of a group that was given up, is told apart by its key.
  auto& listener = found->second.listener;
  if (listener && listener->is_reusable()) spare_ = std::move(listener);
  coming_.erase(found);
}

}  // namespace hymn
