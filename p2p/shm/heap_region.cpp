#include "p2p/shm/heap_region.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "hymn/error.hpp"

namespace hymn {

class HeapRegion final : public SharedRegion {
 public:
  HeapRegion(std::shared_ptr<HeapMemory> memory, int me)
      : SharedRegion(memory->plan_, memory->members_, me, memory->base_),
        memory_(std::move(memory)) {}
  // Pages of the process itself come with their first use.
  Reserved reserve(int index) override { return {plan().area(index).bytes, ""}; }

 private:
  std::shared_ptr<HeapMemory> memory_;
};

HeapMemory::HeapMemory(RegionPlan plan, int members) : plan_(std::move(plan)), members_(members) {
  const std::size_t bytes = plan_.total_bytes(members);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw ResourceError(fmt::format("{} bytes that {} ranks share cannot be mapped: {}", bytes,
                                    members, std::strerror(errno)),
                        {.remedy = "raise the limit on address space (ulimit -v)"});
  base_ = static_cast<std::byte*>(mapped);
}

HeapMemory::~HeapMemory() { munmap(base_, plan_.total_bytes(members_)); }

std::unique_ptr<SharedRegion> HeapMemory::view(const std::shared_ptr<HeapMemory>& memory, int me) {
  return std::make_unique<HeapRegion>(memory, me);
}

}  // namespace hymn
