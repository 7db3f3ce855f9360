// Memory that members of a group on one host share: mapped once by each of them, or, for ranks that
// are threads, once for all.
#pragma once

#include <memory>
#include <string>

#include "p2p/shm/region_plan.hpp"

namespace hymn {

/// A mapped region. The parts that are reserved at once are real memory for all members once every
/// member's region has been made; nothing that was reserved can fault. The memory lives until the
/// last member has let go, and no longer: it has no name.
///
/// Thread-safe; everything is for the caller to order, by flags in the memory itself.
class SharedRegion {
 public:
  SharedRegion(RegionPlan plan, int members, int me, std::byte* base)
      : plan_(std::move(plan)),
        members_(members),
        me_(me),
        part_bytes_(plan_.part_bytes()),
        base_(base) {}
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;
  virtual ~SharedRegion() = default;

  const RegionPlan& plan() const { return plan_; }
  int members() const { return members_; }
  int me() const { return me_; }

  /// RegionPlan::common_bytes of zeros at first, for all.
  std::byte* common() const { return base_; }
  /// Zeros at first. Only what is reserved may be touched.
  std::byte* area(int member, int index) const {
    return base_ + plan_.parts_begin() + part_bytes_ * static_cast<std::size_t>(member) +
           plan_.area(index).offset;
  }

  struct Reserved {
    std::size_t bytes = 0;  ///< from the beginning of the area, whole pages; may be 0
    std::string shortage;   ///< why these are fewer than the area has; empty: they are all
  };
  /// Makes an on-demand area of this member's own part real, as far as memory allows, near the
  /// calling thread. Takes a system call; later calls for the same area give the same answer.
  virtual Reserved reserve(int index) = 0;

 private:
  RegionPlan plan_;
  int members_;
  int me_;
  std::size_t part_bytes_;
  std::byte* base_;
};

/// Waits until `word` may have changed from `expected`, for at most `nanoseconds`; may return
/// early. Works between processes that share the memory.
void futex_wait(const void* word, unsigned expected, long nanoseconds) noexcept;
/// Wakes everybody who waits on `word`.
void futex_wake(const void* word) noexcept;

}  // namespace hymn
