// Regions of ranks that are processes.
#pragma once

#include <map>

#include "p2p/shm/memory_region.hpp"
#include "runtime/shm_mechanism.hpp"

namespace hymn {

class ProcessRegions final : public RegionSource {
 public:
  Bytes make(std::uint64_t uid, const RegionPlan& plan, int members) override;
  std::unique_ptr<SharedRegion> join(std::uint64_t uid, std::span<const std::byte> ticket,
                                     const RegionPlan& plan, int members, int me) override;
  void settled(std::uint64_t uid) override;

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::unique_ptr<RegionMaker>> makers_;  ///< until all have joined
};

}  // namespace hymn
