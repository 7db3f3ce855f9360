#include "runtime/process_regions.hpp"

namespace hymn {

Bytes ProcessRegions::make(std::uint64_t uid, const RegionPlan& plan, int members) {
  auto maker = RegionMaker::make(plan, members);
  Bytes ticket = maker->ticket();
  std::lock_guard lock(mutex_);
  makers_[uid] = std::move(maker);
  return ticket;
}

std::unique_ptr<SharedRegion> ProcessRegions::join(std::uint64_t, std::span<const std::byte> ticket,
                                                   const RegionPlan& plan, int members, int me) {
  return join_region(ticket, plan, members, me);
}

void ProcessRegions::settled(std::uint64_t uid) {
  std::lock_guard lock(mutex_);
  makers_.erase(uid);
}

}  // namespace hymn
