// Memory without a name that processes of one host can map, and how one of them finds another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.hpp"
#include "base/meeting.hpp"
#include "base/private.hpp"

namespace hymn {

/// How a process recognises memory that another one holds. A plain value that travels.
struct MemoryKey {
  std::uint64_t pid = 0;         ///< of the holder, as its /proc numbers it
  std::uint64_t descriptor = 0;  ///< in the holder
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::string link;  ///< what the kernel calls it; carries a random number of its own

  void pack(Packer& packer) const;
  static MemoryKey unpack(Unpacker& unpacker);
};

/// Makes memory of this size that nobody can shrink or grow, all zeros, none of it real yet.
/// `purpose` is shown in /proc/*/maps. Throws ResourceError: no such system call, descriptors, size
/// limits, memory.
Descriptor make_nameless_memory(std::size_t bytes, const std::string& purpose);
MemoryKey key_of(const Descriptor& memory);

/// The memory that another process of this PID namespace holds, through /proc. Throws ResourceError
/// that tells what is wrong: the process has ended, is not ours to look into, holds something else.
Descriptor open_nameless_memory(const MemoryKey& key);
/// Whether this is the memory that the key speaks of; if not, throws ResourceError.
void check_nameless_memory(const Descriptor& memory, const MemoryKey& key);
/// Whether its size can change under us, which could kill us; if so, throws ResourceError.
void check_fixed_size(const Descriptor& memory, const MemoryKey& key);

/// A mapping of shared memory.
class SharedMapping {
 public:
  enum class Access : unsigned char { read_and_write, read };
  SharedMapping() = default;
  /// Throws ResourceError.
  HYMN_PRIVATE SharedMapping(const Descriptor& memory, std::size_t bytes,
                             Access access = Access::read_and_write);
  SharedMapping(SharedMapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HYMN_PRIVATE ~SharedMapping();

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  /// A process made by fork() does not inherit it.
  void keep_from_children() const;
  /// In such a process that does: from now on it has a copy of its own. Safe right after fork().
  void copy(const Descriptor& memory) const noexcept;

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace hymn
