// A region of ranks that are threads of one process.
#pragma once

#include "p2p/shm/region.hpp"

namespace hymn {

/// The memory behind the regions of all members.
class HeapMemory {
 public:
  /// Throws ResourceError when there is not enough memory.
  HeapMemory(RegionPlan plan, int members);
  HeapMemory(const HeapMemory&) = delete;
  HeapMemory& operator=(const HeapMemory&) = delete;
  ~HeapMemory();

  /// A member's view. It keeps the memory alive.
  static std::unique_ptr<SharedRegion> view(const std::shared_ptr<HeapMemory>& memory, int me);

 private:
  friend class HeapRegion;
  RegionPlan plan_;
  int members_;
  std::byte* base_;
};

}  // namespace hymn
