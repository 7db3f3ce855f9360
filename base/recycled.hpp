// Memory of objects that come and go with every call.
#pragma once

#include <cstddef>
#include <new>

#include "base/sanitizers.hpp"

namespace hymn {

/// An allocator of single objects: each thread keeps the memory of some that have ended, whichever
/// thread made them, for those that it makes next.
template <class T>
class RecyclingAllocator {
 public:
  using value_type = T;

  RecyclingAllocator() = default;
  template <class Other>
  explicit(false) RecyclingAllocator(const RecyclingAllocator<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    static_assert(sizeof(T) >= sizeof(Spare) && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    Store& store = store_of_thread;
    if (count != 1 || store.first == nullptr)
      return static_cast<T*>(::operator new(count * sizeof(T)));
    Spare* const taken = store.first;
    store.first = taken->next;
    --store.count;
    return reinterpret_cast<T*>(taken);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    Store& store = store_of_thread;
    if (count != 1 || store.count == most_kept || !keeper.is_there())
      return ::operator delete(memory);
    store.first = ::new (static_cast<void*>(memory)) Spare{store.first};
    ++store.count;
  }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) { return true; }

 private:
  // Sanitizers are to see what is used after its end.
  static constexpr std::size_t most_kept = sanitized ? 0 : 64;
  struct Spare {
    Spare* next;
  };
  /// Needs no end, so that it is there as long as the thread.
  struct Store {
    Spare* first;
    std::size_t count;
    bool has_ended;
  };
  /// Frees what is kept when the thread ends; what ends after that is not kept.
  struct Keeper {
    bool is_there() const { return !store_of_thread.has_ended; }
    ~Keeper() {
      Store& store = store_of_thread;
      store.has_ended = true;
      while (store.first != nullptr) {
        Spare* const spare = store.first;
        store.first = spare->next;
        ::operator delete(spare);
      }
      store.count = 0;
    }
  };
  static constinit inline thread_local Store store_of_thread{};
  static inline thread_local Keeper keeper;
};

}  // namespace hymn
