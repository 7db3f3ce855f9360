#include "tests/unit/allocation_count.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t this_thread = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++this_thread;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace hymn::test {

std::size_t allocations_of_this_thread() { return this_thread; }

}  // namespace hymn::test

// The other forms of new come down to these.
void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
