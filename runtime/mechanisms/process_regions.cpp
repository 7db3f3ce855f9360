#include "runtime/mechanisms/process_regions.hpp"

#include <algorithm>

namespace hymn {
namespace {

// The maker hands over right after all have offered: a longer wait helps nobody.
constexpr Duration longest_handover = std::chrono::seconds(10);

}  // namespace

Bytes ProcessRegions::open_door(std::uint64_t uid) {
  auto door = Door::open();
  Bytes address = door->address();
  std::lock_guard lock(mutex_);
  coming_[uid].door = std::move(door);
  return address;
}

Bytes ProcessRegions::make(std::uint64_t uid, const RegionPlan& plan, int members) {
  auto maker = RegionMaker::make(plan, members);
  Bytes ticket = maker->ticket();
  std::lock_guard lock(mutex_);
  coming_[uid].maker = std::move(maker);
  return ticket;
}

void ProcessRegions::hand_out(std::uint64_t uid, std::span<const Bytes> doors) {
  std::lock_guard lock(mutex_);
  if (const auto& maker = coming_[uid].maker) maker->hand_out(doors);
}

std::unique_ptr<SharedRegion> ProcessRegions::join(std::uint64_t uid,
                                                   std::span<const std::byte> ticket,
                                                   const RegionPlan& plan, int members, int me,
                                                   Duration patience) {
  Door* door = nullptr;
  {
    std::lock_guard lock(mutex_);
    door = coming_[uid].door.get();
  }
  return join_region(ticket, plan, members, me, *door, std::min(patience, longest_handover));
}

void ProcessRegions::settled(std::uint64_t uid) {
  std::lock_guard lock(mutex_);
  coming_.erase(uid);
}

}  // namespace hymn
