// Memory that the other ranks of this host can reach: collectives read and write it where it lies,
// without copies on the way (docs/shared-memory.md).
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "hymn/export.hpp"

namespace hymn {

/// `bytes` of zeros, aligned to 4096 bytes; of 0 bytes, too, to be freed. Whole pages are taken,
/// near the calling thread and all at once, so that it is meant for large buffers, not for small
/// objects.
///
/// It can be used like any other memory, before a world is made and after it has ended. A child
/// made by fork() shares it with its parent, instead of getting a copy. Buffers of different groups
/// should be allocations of their own: a group that fails may cut off whole pages from others.
///
/// Throws ResourceError when there is not enough memory, or no descriptor left: nobody is killed
/// for lack of it later. Thread-safe.
[[nodiscard]] HYMN_API void* allocate(std::size_t bytes);

/// Gives memory from allocate() back to the system at once; null is nothing. No operation may be in
/// flight on it. Throws UsageError for any other pointer. Thread-safe.
HYMN_API void deallocate(void* memory);

/// Owns memory from allocate(). Movable, not copyable.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Throws ResourceError as allocate() does.
  explicit SharedBuffer(std::size_t bytes) : data_(allocate(bytes)), size_(bytes) {}
  SharedBuffer(SharedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SharedBuffer() { deallocate(data_); }

  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  std::size_t size() const noexcept { return size_; }  ///< bytes

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// For containers: std::vector<float, hymn::Allocator<float>>. All Allocators are equal.
template <class T>
class Allocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type;

  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) noexcept {}  // NOLINT: containers convert allocators

  /// Throws ResourceError as hymn::allocate() does, and std::bad_array_new_length.
  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw std::bad_array_new_length();
    return static_cast<T*>(hymn::allocate(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t) { hymn::deallocate(memory); }

  template <class U>
  bool operator==(const Allocator<U>&) const noexcept {
    return true;
  }
};

}  // namespace hymn
