// Regions between processes of one host: nameless memory (memfd) that the others open through the
// kernel.
#pragma once

#include "base/meeting.hpp"
#include "p2p/shm/descriptor_passing.hpp"
#include "p2p/shm/region.hpp"

namespace hymn {

/// How a region between processes comes about:
///   1. every member opens a listener and sends its address with its first message; before that the
///      lowest member on the host (the maker) calls RegionMaker::make, and sends ticket(), too;
///   2. the maker hands out the memory to those who need that; every member, the maker too, joins
///      with the maker's ticket, and tells the others how that ended in its second message;
///   3. when all have joined, the maker and the listeners may be destroyed. So they are where one
///      has failed.
class RegionMaker {
 public:
  /// Throws ResourceError (memory, descriptors, RLIMIT_FSIZE …) that tells what is short and the
  /// remedy.
  static std::unique_ptr<RegionMaker> make(RegionPlan plan, int members);
  virtual ~RegionMaker() = default;
  /// What the others need to find and recognise the memory.
  virtual Bytes ticket() const = 0;
  /// For the members on this host, by the addresses of their listeners. Never waits.
  virtual void pass_descriptors(std::span<const Bytes> addresses) const = 0;
};

/// Maps the region behind the ticket and reserves this member's part near the calling thread. The
/// plan must be the maker's. Waits for up to `patience` where the memory must be handed over.
/// Throws ResourceError that tells what failed and the remedy: no such memory (another PID
/// namespace and no common socket), another plan, out of memory.
std::unique_ptr<SharedRegion> join_region(std::span<const std::byte> ticket, RegionPlan plan,
                                          int members, int me, DescriptorListener& listener,
                                          Duration patience = std::chrono::seconds(10));

}  // namespace hymn
