#include "p2p/shm/shared_heap.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "hymn/allocate.hpp"
#include "hymn/error.hpp"
#include "p2p/shm/region_plan.hpp"
#include "p2p/shm/reservation.hpp"

namespace hymn {
namespace {

/// Address space only: pages are real where something is allocated.
constexpr std::size_t usual_segment = std::size_t{1} << 30;
constexpr std::string_view link_begin = "/memfd:hymn-heap-";

std::size_t whole_pages(std::size_t bytes) {
  if (bytes > SIZE_MAX / 2)
    throw ResourceError(
        fmt::format("{} bytes of shared memory are more than an address space can hold", bytes));
  const std::size_t page = RegionPlan::page_of_machine();
  return std::max(page, (bytes + page - 1) / page * page);
}

/// The random number in the memory's name; 0 where it has none.
std::uint64_t token_in(const std::string& link) {
  if (!link.starts_with(link_begin)) return 0;
  std::uint64_t token = 0;
  const char* begin = link.data() + link_begin.size();
  std::from_chars(begin, link.data() + link.size(), token, 16);
  return token;
}

MemoryKey key_from(const HeapPlace& place) {
  return {.pid = place.pid,
          .descriptor = place.descriptor,
          .device = place.device,
          .inode = place.inode,
          .bytes = place.segment_bytes,
          .link = fmt::format("{}{:016x} (deleted)", link_begin, place.token)};
}

}  // namespace

struct SharedHeap::Segment {
  explicit Segment(std::size_t bytes)
      : memory(make_nameless_memory(bytes, "heap")),
        mapping(std::make_shared<SharedMapping>(memory, bytes)) {
    const MemoryKey key = key_of(memory);
    place = {key.pid, key.descriptor, key.device, key.inode, key.bytes, token_in(key.link), 0};
    free[0] = bytes;
  }

  /// A run of pages; null when there is none as long as that.
  std::byte* take(std::size_t bytes) {
    const auto fits = [bytes](const auto& run) { return run.second >= bytes; };
    const auto run = std::find_if(free.begin(), free.end(), fits);
    if (run == free.end()) return nullptr;
    const auto [offset, length] = *run;
    free.erase(run);
    if (length > bytes) free[offset + bytes] = length - bytes;
    return mapping->base() + offset;
  }
  void put_back(std::size_t offset, std::size_t bytes) {
    auto next = free.upper_bound(offset);
    if (next != free.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = free.erase(next);
    }
    if (next != free.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free[offset] = bytes;
  }
  /// Gives pages back to the system, whoever maps them.
  void drop_pages(const std::byte* begin, std::size_t bytes) const {
    fallocate(memory.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(begin - mapping->base()), static_cast<off_t>(bytes));
  }
  bool is_empty() const { return free.size() == 1 && free.begin()->second == mapping->bytes(); }
  /// A child made by fork() sees the memory, but it is its parent's.
  bool is_own() const { return owner == getpid(); }

  Descriptor memory;
  std::shared_ptr<SharedMapping> mapping;
  HeapPlace place;
  std::map<std::size_t, std::size_t> free;  ///< runs of pages, by offset
  pid_t owner = getpid();
};

SharedHeap::SharedHeap() = default;

// Never destroyed: what is allocated may be used until the process has ended.
SharedHeap& SharedHeap::of_process() {
  static auto* heap = new SharedHeap();
  return *heap;
}

SharedHeap::Segment& SharedHeap::add_segment(std::size_t bytes) {
  if (bytes < usual_segment) {
    try {
      segments_.push_back(std::make_unique<Segment>(usual_segment));
      return *segments_.back();
    } catch (const ResourceError&) {
      // A limit on address space, or on the size of files: as much as is needed, then.
    }
  }
  segments_.push_back(std::make_unique<Segment>(bytes));
  return *segments_.back();
}

std::byte* SharedHeap::take(std::size_t bytes) {
  for (const auto& segment : segments_) {
    if (!segment->is_own()) continue;
    std::byte* const begin = segment->take(bytes);
    if (begin == nullptr) continue;
    allocations_[begin] = {.bytes = bytes, .segment = segment.get()};
    return begin;
  }
  Segment& added = add_segment(bytes);
  std::byte* const begin = added.take(bytes);
  allocations_[begin] = {.bytes = bytes, .segment = &added};
  return begin;
}

void* SharedHeap::allocate(std::size_t bytes) {
  const std::size_t pages = whole_pages(bytes);
  std::byte* begin = nullptr;
  Segment* segment = nullptr;
  {
    std::lock_guard lock(mutex_);
    begin = take(pages);
    segment = allocations_.at(begin).segment;
  }
  // Without the lock: this takes as long as it takes to write all of it. The segment stays.
  const auto offset = static_cast<std::size_t>(begin - segment->mapping->base());
  const Reservation got =
      reserve_memory(*segment->mapping, segment->memory, offset, pages, 1, Need::all);
  if (got.shortage.empty()) return begin;
  deallocate(begin);
  throw ResourceError(got.shortage);
}

void SharedHeap::give_back(const Allocation& allocation, std::byte* begin) {
  Segment& segment = *allocation.segment;
  // In a child made by fork() it would be the parent's memory that is gone.
  if (!segment.is_own()) return;
  if (allocation.detached) madvise(begin, allocation.bytes, MADV_DONTNEED);
  segment.drop_pages(begin, allocation.bytes);
  // Somebody may write there who does not know yet: these addresses are not used again.
  if (allocation.detached) return;
  segment.put_back(static_cast<std::size_t>(begin - segment.mapping->base()), allocation.bytes);
  drop_if_empty(segment);
}

void SharedHeap::drop_if_empty(Segment& segment) {
  if (!segment.is_empty()) return;
  // One empty segment waits for the next allocation.
  const auto others_empty = [&segment](const auto& other) {
    return other.get() != &segment && other->is_own() && other->is_empty();
  };
  const bool keep = segment.mapping->bytes() == usual_segment &&
                    std::none_of(segments_.begin(), segments_.end(), others_empty);
  if (!keep) std::erase_if(segments_, [&segment](const auto& s) { return s.get() == &segment; });
}

void SharedHeap::deallocate(void* memory) {
  if (memory == nullptr) return;
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<std::byte*>(memory));
  if (found == allocations_.end())
    throw UsageError("the memory to be freed is not from hymn::allocate, or has been freed already",
                     {.remedy = "free each pointer from hymn::allocate once, and no other"});
  const auto [begin, allocation] = *found;
  allocations_.erase(found);
  give_back(allocation, begin);
}

SharedHeap::Allocations::const_iterator SharedHeap::allocation_of(const void* memory,
                                                                  std::size_t bytes) const {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(memory));
  auto found = allocations_.upper_bound(begin);
  if (found == allocations_.begin()) return allocations_.end();
  --found;
  const auto offset = static_cast<std::size_t>(begin - found->first);
  const Allocation& allocation = found->second;
  const bool inside = offset <= allocation.bytes && bytes <= allocation.bytes - offset;
  return inside && allocation.segment->is_own() ? found : allocations_.end();
}

std::optional<HeapPlace> SharedHeap::find(const void* memory, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto found = allocation_of(memory, bytes);
  if (found == allocations_.end() || found->second.detached) return std::nullopt;
  const Segment& segment = *found->second.segment;
  HeapPlace place = segment.place;
  if (place.token == 0) return std::nullopt;  // a file, not a memfd: see make_nameless_memory()
  place.offset =
      static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) - segment.mapping->base());
  return place;
}

// The copy takes the place of the shared pages in one step, so that other threads that look at them
// see the one or the other.
bool SharedHeap::cut_off(const Segment& segment, std::byte* pages, std::size_t bytes) {
  void* const copy =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  if (reserve_private(static_cast<std::byte*>(copy), bytes)) {
    std::memcpy(copy, pages, bytes);
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages) != MAP_FAILED) {
      segment.drop_pages(pages, bytes);
      return true;
    }
  }
  munmap(copy, bytes);
  return false;
}

std::size_t SharedHeap::detach(void* memory, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = allocation_of(memory, bytes);
  if (bytes == 0 || found == allocations_.end()) return bytes;
  const std::size_t page = RegionPlan::page_of_machine();
  const std::size_t before = reinterpret_cast<std::uintptr_t>(memory) % page;
  std::byte* const begin = static_cast<std::byte*>(memory) - before;
  const std::size_t length = whole_pages(before + bytes);
  // Bit by bit, as each takes memory before it gives some back; but a process may not have
  // more than some ten thousand mappings.
  const std::size_t most = std::max(std::size_t{2} << 20, whole_pages(length / 1024));
  allocations_.at(found->first).detached = true;
  std::size_t done = 0;
  while (done < length) {
    const std::size_t next = std::min(most, length - done);
    if (!cut_off(*found->second.segment, begin + done, next)) break;
    done += next;
  }
  return std::min(bytes, done - std::min(done, before));
}

std::shared_ptr<SharedMapping> SharedHeap::map(const HeapPlace& place) {
  std::lock_guard lock(mutex_);
  for (const auto& segment : segments_)
    if (segment->is_own() && segment->place.token == place.token) return segment->mapping;
  std::weak_ptr<SharedMapping>& known = of_others_[place.token];
  if (auto mapping = known.lock()) return mapping;
  const MemoryKey key = key_from(place);
  const Descriptor memory = open_nameless_memory(key);
  check_fixed_size(memory, key);
  auto mapping = std::make_shared<SharedMapping>(memory, key.bytes);
  known = mapping;
  std::erase_if(of_others_, [](const auto& entry) { return entry.second.expired(); });
  return mapping;
}

void* allocate(std::size_t bytes) { return SharedHeap::of_process().allocate(bytes); }

void deallocate(void* memory) { SharedHeap::of_process().deallocate(memory); }

}  // namespace hymn
