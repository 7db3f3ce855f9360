// Where tests' buffers lie: TEST_MEMORY says "shared" (all from hymn::allocate), "mixed" (some of
// them, others on each rank), "any" (as mixed, some others in pages that can be protected), or
// nothing (the heap).
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include "hymn/allocate.hpp"

namespace hymn::test {

enum class Backing : std::uint8_t { heap, shared, pages };

inline Backing next_backing() {
  static const std::string_view where = [] {
    const char* text = std::getenv("TEST_MEMORY");
    return std::string_view(text == nullptr ? "" : text);
  }();
  static std::atomic<unsigned> next{static_cast<unsigned>(getpid()) * 7};
  const auto turn = [] { return next++ % 8; };
  if (where == "shared") return Backing::shared;
  if (where == "mixed") return turn() != 0 ? Backing::shared : Backing::heap;
  if (where != "any") return Backing::heap;
  const unsigned drawn = turn();
  return drawn < 4 ? Backing::heap : drawn < 6 ? Backing::pages : Backing::shared;
}

/// For containers. What it makes is as aligned as T.
template <class T>
class Memory {
 public:
  using value_type = T;
  Memory() : backing_(next_backing()) {}
  template <class U>
  Memory(const Memory<U>& other) : backing_(other.backing()) {}  // NOLINT: as containers want

  Backing backing() const { return backing_; }
  T* allocate(std::size_t count) {
    switch (backing_) {
      case Backing::shared:
        return static_cast<T*>(hymn::allocate(count * sizeof(T)));
      case Backing::pages: {
        void* const made = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) throw std::bad_alloc();
        return static_cast<T*>(made);
      }
      case Backing::heap:
        break;
    }
    return static_cast<T*>(operator new(count * sizeof(T), std::align_val_t(alignof(T))));
  }
  void deallocate(T* memory, std::size_t count) {
    switch (backing_) {
      case Backing::shared:
        return hymn::deallocate(memory);
      case Backing::pages:
        ::munmap(memory, count * sizeof(T));
        return;
      case Backing::heap:
        return operator delete(memory, std::align_val_t(alignof(T)));
    }
  }
  /// Where it lies in pages of its own: whoever writes to it from now on is ended by a signal.
  void protect(const T* memory, std::size_t count) const {
    if (backing_ == Backing::pages)
      ::mprotect(const_cast<T*>(memory), count * sizeof(T), PROT_READ);  // NOLINT: its owner asks
  }
  template <class U>
  bool operator==(const Memory<U>& other) const {
    return backing_ == other.backing();
  }

 private:
  Backing backing_;
};

}  // namespace hymn::test
