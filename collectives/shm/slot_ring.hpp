// Rings of slots: how broadcast, reduce, all_gather and reduce_scatter move data between members.
//
// These collectives are cut in rounds, which are counted over all of them and never restart. In a
// round a member may show a piece of its data, by its head for that round, and take what others
// show. Nobody waits for those behind it while it has room left: a head, and the memory that it
// tells of, are written again when all others are through with the round that they served before.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_limits.hpp"

namespace hymn {

/// One member's view of all rings, and how far it is; touched in the turn of an operation only.
class SlotRing {
 public:
  /// Where data lies: beside its flag, several rounds in a line, or one round in a line; where the
  /// number of the round says, so that it is fetched together with the flag; where the head says,
  /// in memory that is always there; and there, in memory that comes with its first use.
  enum class Size : unsigned char { tiny, few, near, small, large };
  static constexpr std::size_t tiny_bytes = 8;
  static constexpr std::size_t few_bytes = 48;
  static constexpr std::size_t near_bytes = shm_limits::near_slot;
  static constexpr std::size_t largest_room = std::size_t{256} << 10;
  static constexpr int most_members = shm_limits::ring_members;

  struct TinyHead {
    std::atomic<std::uint64_t> flag;
    std::byte data[tiny_bytes];
  };
  struct alignas(64) Head {
    std::atomic<std::uint64_t> flag;  ///< SlotFlag; its use is the round
    double factor;                    ///< the member's own, of premul_sum
    union {
      std::byte few[few_bytes];
      std::uint64_t place;  ///< of more bytes, in the area
    };
  };

  explicit SlotRing(const ShmGroup& group);

  /// Bytes of the two areas.
  static std::size_t fixed_area_bytes(int members);
  static std::size_t large_area_bytes();

  ShmChannel& channel() const { return *channel_; }
  Reproducibility reproducibility() const { return reproducibility_; }

  /// How much can be shown in one round.
  std::size_t small_room() const { return small_room_; }
  /// ShmChannel::unknown_bytes until all members have reserved theirs; then 0 where memory is
  /// short.
  std::size_t large_room();

  /// Numbers the rounds of an operation; returns the first.
  std::uint64_t open_rounds(std::uint64_t count) { return std::exchange(opened_, opened_ + count); }

  Head& head(int member, std::uint64_t round) const { return fixed(member).heads[round % heads]; }
  std::atomic<std::uint64_t>& flag(int member, std::uint64_t round, bool tiny) const {
    return tiny ? fixed(member).tiny[round % heads].flag : head(member, round).flag;
  }
  /// The data that belongs to a flag.
  std::byte* data(int member, std::uint64_t round, Size size) const {
    if (size == Size::tiny) return fixed(member).tiny[round % heads].data;
    if (size == Size::near) return fixed(member).near[round % nears].data();
    Head& told = head(member, round);
    return size == Size::few ? told.few : area(member, size) + told.place;
  }

  /// Gives this member its head for a round, with room for that many bytes; false: not yet.
  bool claim(std::uint64_t round, Size size, std::size_t bytes);

  /// Whether that has looked how far the others are, since this was asked last.
  bool has_looked() { return std::exchange(has_looked_, false); }

  /// This member will read nothing more of the rounds up to this one. Where data lies in heads or
  /// near them, which are many, it is told now and then only: others look at it all the time while
  /// they wait, which takes the line away each time.
  void finish(std::uint64_t round, Size size) {
    if (size <= Size::near && round - told_ < rounds_between_telling) return;
    const std::uint64_t before = std::exchange(told_, round);
    std::atomic<std::uint64_t>& done = fixed(channel_->rank()).done;
    if (channel_->oversubscribed())
      tell_whoever_sleeps(done, before);
    else
      channel_->publish(done, round);
  }
  /// Whether a member has told that.
  bool has_finished(int member, std::uint64_t round) const {
    return fixed(member).done.load(std::memory_order_acquire) >= round;
  }
  /// For operations that take from many: the next round to take from each.
  std::vector<std::uint64_t>& taken() { return taken_; }

 private:
  static constexpr unsigned heads = 128;
  static constexpr unsigned nears = 64;
  /// Whoever has taken all that there is must not keep others from showing more.
  static constexpr unsigned rounds_between_telling = 32;
  static_assert(rounds_between_telling <= nears);
  /// Pieces of a large message that are on their way at once. More would not stay in a cache.
  static constexpr unsigned pieces = 4;
  static constexpr std::size_t line = 64;

  struct Fixed {
    alignas(128) std::atomic<std::uint64_t> done;
    alignas(128) TinyHead tiny[SlotRing::heads];
    alignas(128) Head heads[SlotRing::heads];
    std::array<std::byte, near_bytes> near[nears];
  };
  /// This member's memory in an area: given out piece by piece, in a circle.
  struct Circle {
    struct Piece {
      std::uint64_t round;
      std::uint64_t begin;  ///< counted on from circle to circle
    };
    std::size_t span = 0;
    std::uint64_t end = 0;
    std::array<Piece, SlotRing::heads> given;  ///< those that may still be read
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  Fixed& fixed(int member) const { return *channel_->at<Fixed>(member, fixed_area_); }
  std::byte* area(int member, Size size) const {
    return size == Size::small ? channel_->at<std::byte>(member, fixed_area_) + sizeof(Fixed)
                               : channel_->at<std::byte>(member, large_area_);
  }
  static std::size_t small_room_for(int members);
  bool claim_bytes(std::uint64_t round, Size size, std::size_t bytes);
  bool all_are_through(std::uint64_t round) {
    return round <= done_by_all_ || look_whether_through(round);
  }
  bool look_whether_through(std::uint64_t round);
  std::uint64_t least_done_by_others(std::memory_order order) const;
  void tell_whoever_sleeps(std::atomic<std::uint64_t>& done, std::uint64_t before);

  std::shared_ptr<ShmChannel> channel_;
  int fixed_area_;
  int large_area_;
  Reproducibility reproducibility_;
  std::size_t small_room_;
  std::size_t large_room_ = ShmChannel::unknown_bytes;
  Circle small_;
  Circle large_;
  std::uint64_t opened_ = 1;  ///< memory is zero at first: no round has that number
  std::uint64_t told_ = 0;
  std::uint64_t done_by_all_ = 0;
  bool has_looked_ = false;
  std::vector<std::uint64_t> taken_;
};

}  // namespace hymn
