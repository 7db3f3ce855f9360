// Regions of ranks that are processes.
#pragma once

#include <map>

#include "p2p/shm/memory_region.hpp"
#include "runtime/mechanisms/shm_mechanism.hpp"

namespace hymn {

class ProcessRegions final : public RegionSource {
 public:
  Bytes open_listener(std::uint64_t uid) override;
  Bytes make(std::uint64_t uid, const RegionPlan& plan, int members) override;
  void pass_descriptors(std::uint64_t uid, std::span<const Bytes> listeners) override;
  std::unique_ptr<SharedRegion> join(std::uint64_t uid, std::span<const std::byte> ticket,
                                     const RegionPlan& plan, int members, int me,
                                     Duration patience) override;
  void settled(std::uint64_t uid) override;

 private:
  /// Until all have joined.
  struct Coming {
    std::unique_ptr<DescriptorListener> listener;
    std::unique_ptr<RegionMaker> maker;  ///< on the lowest member
  };
  std::unique_ptr<DescriptorListener> take_spare();

  std::mutex mutex_;
  std::map<std::uint64_t, Coming> coming_;
  std::unique_ptr<DescriptorListener> spare_;  ///< of a group that has settled
};

}  // namespace hymn
