// What is behind hymn::allocate: memory of this process that others can map, and theirs here.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "p2p/shm/nameless_memory.hpp"

namespace hymn {

/// Where a piece of a process's shared heap lies. A plain value for shared memory.
struct HeapPlace {
  std::uint64_t pid = 0;
  std::uint64_t descriptor = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t token = 0;   ///< of the segment: a random number; 0: no place
  std::uint64_t offset = 0;  ///< in the segment
};

/// The heap consists of segments, each a memory of its own that is sealed and mapped as a whole.
/// What is allocated is a run of pages in one of them; what is freed goes back to the system at
/// once, whoever still maps the segment, for only pages that are allocated are real. So a peer
/// never need be told, and what it has mapped it may look at, at any time.
class SharedHeap {
 public:
  static SharedHeap& of_process();
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  /// As hymn::allocate and hymn::deallocate.
  void* allocate(std::size_t bytes);
  void deallocate(void* memory);

  /// Where this memory lies if all of it is in one allocation of this process.
  std::optional<HeapPlace> find(const void* memory, std::size_t bytes) const;
  /// Cuts the memory off from all other processes, with what is in it now: what they write from now
  /// on is lost. Whole pages around it are taken, and the allocation has no place any more. Returns
  /// how many bytes, from the beginning, are cut off: fewer where no memory is left for copies.
  std::size_t detach(void* memory, std::size_t bytes);
  /// The segment of a place, mapped here for as long as somebody holds it. Throws ResourceError as
  /// open_nameless_memory() does.
  std::shared_ptr<SharedMapping> map(const HeapPlace& place);

 private:
  struct Segment;
  struct Allocation {
    std::size_t bytes;
    Segment* segment;
    bool detached = false;
  };
  using Allocations = std::map<std::byte*, Allocation>;

  SharedHeap();
  ~SharedHeap() = default;
  std::byte* take(std::size_t bytes);
  Segment& add_segment(std::size_t bytes);
  void give_back(const Allocation& allocation, std::byte* begin);
  static bool cut_off(const Segment& segment, std::byte* pages, std::size_t bytes);
  void drop_if_empty(Segment& segment);
  Allocations::const_iterator allocation_of(const void* memory, std::size_t bytes) const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Segment>> segments_;
  Allocations allocations_;
  std::map<std::uint64_t, std::weak_ptr<SharedMapping>> of_others_;  ///< by token
};

}  // namespace hymn
