// all_reduce in one step: everybody shows its input in a slot, and folds what all have shown. The
// core of two algorithms that differ in which slot a member writes to.
//
// A member writes two slots in turn. That is enough: who writes its slot for use k has finished use
// k-1, and so has seen everybody in k-1, which they entered after they had read use k-2.
#pragma once

#include <atomic>

#include "collectives/shm/shm_algorithms.hpp"

namespace hymn {

/// The slots of all members for one algorithm, and how often this member has used them. Touched in
/// the member's turn only.
class ShownSlots {
 public:
  /// `swaps`: with two members, the slot that a member has read is the next one that it writes with
  /// the same parity. The lines then travel between the cores once for every use, not twice.
  ShownSlots(const ShmGroup& group, int area, std::size_t capacity, bool swaps);

  /// Bytes of a member's area for slots that hold so much.
  static std::size_t area_bytes(std::size_t capacity);
  /// Whether the request fits, and can be reduced at all.
  Verdict can_show(const Request& request) const;
  Operation& prepare(OperationStorage& storage, const Call& call);

 private:
  friend class ShowOperation;
  static constexpr std::size_t line = 64;
  /// The flag stands beside the data where these are few: then one line tells all.
  struct Slot {
    std::atomic<std::uint64_t> flag;
    double factor;
    std::byte few[48];
    std::byte more[line];  ///< from the offset in the flag on, and as much again as fits
  };

  static std::size_t slot_bytes(std::size_t capacity);
  Slot& slot(int member, std::uint64_t use) const {
    const auto writer = swaps_ ? (static_cast<std::uint64_t>(member) + use / 2) % 2
                               : static_cast<std::uint64_t>(member);
    return *reinterpret_cast<Slot*>(channel_->at<std::byte>(static_cast<int>(writer), area_) +
                                    (use % 2) * slot_bytes_);
  }

  std::shared_ptr<ShmChannel> channel_;
  int area_;
  std::size_t capacity_;
  std::size_t slot_bytes_;
  bool swaps_;
  Reproducibility reproducibility_;
  std::uint64_t uses_ = 0;
};

}  // namespace hymn
