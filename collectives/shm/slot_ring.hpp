// Rings of slots: how broadcast, reduce, all_gather and reduce_scatter move data between members.
//
// These collectives are cut in rounds, which are counted over all of them and never restart. In a
// round a member may show a piece of its data, in its slot for that round, and take what others
// show. Nobody waits for those behind it while it has slots left: a slot is written again when all
// others are through with the round that it served before.
#pragma once

#include <utility>
#include <vector>

#include "collectives/shm/shm_algorithms.hpp"

namespace hymn {

/// One member's view of all rings, and how far it is; touched in the turn of an operation only.
class SlotRing {
 public:
  /// Where a slot's data lies: beside its flag, in memory that is always there, or in memory that
  /// comes with its first use.
  enum class Size : unsigned char { few, small, large };
  static constexpr std::size_t few_bytes = 48;
  static constexpr std::size_t largest_room = std::size_t{512} << 10;
  static constexpr int most_members = 128;

  struct alignas(128) Head {
    std::atomic<std::uint64_t> flag;  ///< SlotFlag; its use is the round
    double factor;                    ///< the member's own, of premul_sum
    std::byte few[few_bytes];
  };

  explicit SlotRing(const ShmGroup& group);

  /// Bytes of the two areas.
  static std::size_t fixed_area_bytes(int members);
  static std::size_t large_area_bytes();

  ShmChannel& channel() const { return *channel_; }
  Reproducibility reproducibility() const { return reproducibility_; }

  /// How much a slot holds.
  std::size_t small_room() const { return small_room_; }
  /// ShmChannel::unknown_bytes until all members have reserved theirs; then 0 where memory is
  /// short.
  std::size_t large_room();

  /// Numbers the rounds of an operation; returns the first.
  std::uint64_t open_rounds(std::uint64_t count) { return std::exchange(opened_, opened_ + count); }

  Head& head(int member, std::uint64_t round) const {
    return fixed(member).heads[round % few_slots];
  }
  /// Where data of this size lies that is as far from a line as `offset` says.
  std::byte* data(int member, std::uint64_t round, Size size, unsigned offset) const;

  /// Whether this member may write its slot of the round.
  bool is_free(std::uint64_t round, Size size) {
    const std::uint64_t slots = size == Size::few ? few_slots : data_slots;
    return round <= done_by_all_ + slots || look_for_free(round - slots);
  }
  /// This member will read nothing more of the rounds up to this one.
  void finish(std::uint64_t round) { channel_->publish(fixed(channel_->rank()).done, round); }
  /// For operations that take from many: the next round to take from each.
  std::vector<std::uint64_t>& taken() { return taken_; }

 private:
  static constexpr unsigned few_slots = 8;
  static constexpr unsigned data_slots = 4;
  /// Data may begin up to 63 bytes behind the beginning of its slot.
  static constexpr std::size_t margin = 128;

  struct Fixed {
    alignas(128) std::atomic<std::uint64_t> done;
    Head heads[few_slots];
  };
  Fixed& fixed(int member) const { return *channel_->at<Fixed>(member, fixed_area_); }
  static std::size_t small_room_for(int members);
  bool look_for_free(std::uint64_t round);

  std::shared_ptr<ShmChannel> channel_;
  int fixed_area_;
  int large_area_;
  Reproducibility reproducibility_;
  std::size_t small_room_;
  std::size_t large_stride_ = 0;
  std::uint64_t opened_ = 1;  ///< memory is zero at first: no round has that number
  std::uint64_t done_by_all_ = 0;
  std::vector<std::uint64_t> done_by_;
  std::vector<std::uint64_t> taken_;
};

}  // namespace hymn
