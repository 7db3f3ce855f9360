// Where tests' buffers lie: TEST_MEMORY says "shared" (all from hymn::allocate), "mixed" (some of
// them, others on each rank), or nothing (the heap).
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include "hymn/allocate.hpp"

namespace hymn::test {

inline bool next_is_shared() {
  static const std::string_view where = [] {
    const char* text = std::getenv("TEST_MEMORY");
    return std::string_view(text == nullptr ? "" : text);
  }();
  if (where != "mixed") return where == "shared";
  static std::atomic<unsigned> turn{static_cast<unsigned>(getpid()) * 7};
  return turn++ % 8 != 0;
}

/// For containers. What it makes is as aligned as T.
template <class T>
class Memory {
 public:
  using value_type = T;
  Memory() : shared_(next_is_shared()) {}
  template <class U>
  Memory(const Memory<U>& other) : shared_(other.is_shared()) {}  // NOLINT: as containers want

  bool is_shared() const { return shared_; }
  T* allocate(std::size_t count) {
    if (shared_) return static_cast<T*>(hymn::allocate(count * sizeof(T)));
    return static_cast<T*>(operator new(count * sizeof(T), std::align_val_t(alignof(T))));
  }
  void deallocate(T* memory, std::size_t) {
    if (shared_)
      hymn::deallocate(memory);
    else
      operator delete(memory, std::align_val_t(alignof(T)));
  }
  template <class U>
  bool operator==(const Memory<U>& other) const {
    return shared_ == other.is_shared();
  }

 private:
  bool shared_;
};

}  // namespace hymn::test
