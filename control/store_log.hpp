// A log of changes in a file that several processes write: the memory of FileStore.
//
// The file begins with a header, which says how many bytes of it count. Under an exclusive lock
// (which the kernel takes from a process that is killed) a writer first writes its record behind
// those, and then the new number into the header, with one write of eight bytes. So a record that
// was not finished is never seen, and the next one is written over it.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "control/store_map.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// Not thread-safe. All errors are StoreErrors that name the file.
class StoreLog {
 public:
  explicit StoreLog(std::string path);

  enum class Access : unsigned char { read, write };

  /// While it lives no other process changes the file; with Access::read others may read it.
  class Lock {
   public:
    /// Also reads what others have written since. Throws when it is not to be had by the deadline.
    Lock(StoreLog& log, Access access, Deadline deadline);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    StoreLog& log_;
  };

  /// As of the last lock.
  const StoreMap& map() const { return map_; }
  /// Under a lock for writing.
  void set(const std::string& key, const Bytes& value);
  void erase(const std::string& key);
  /// Counts one user out, and removes the file when that makes `users`.
  void leave(int users);

 private:
  struct Header;
  void open();
  void lock(int kind, Deadline deadline);
  Header read_header();
  void catch_up(bool may_write);
  void append(const std::string& key, std::uint32_t value_bytes, std::span<const std::byte> value);
  void read_at(void* to, std::size_t count, std::uint64_t offset);
  void write_at(const void* from, std::size_t count, std::uint64_t offset);
  [[noreturn]] void fail(const std::string& what, std::string remedy = {}) const;
  [[noreturn]] void fail_with_errno(const std::string& what) const;

  std::string path_;
  Descriptor file_;
  long process_ = 0;  ///< that opened it: a child shares its parent's locks, and opens its own
  std::uint64_t position_ = 0;  ///< up to where the file is in the map; 0: not even the header
  StoreMap map_;
};

}  // namespace hymn
