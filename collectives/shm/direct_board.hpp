// Where members show each other memory from hymn::allocate, so that they can work on it where it
// lies.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "collectives/shm_base/shm_reduction.hpp"
#include "p2p/shm/channel.hpp"
#include "p2p/shm/shared_heap.hpp"

namespace hymn {

/// What a member shows of one call.
struct DirectCall {
  std::uint64_t label = 0;   ///< ShmOperation::label()
  double factor = 1;         ///< of premul_sum
  std::uint64_t usable = 0;  ///< whether this member can do it without staging
  HeapPlace input;           ///< what others read; no place: nothing
  HeapPlace output;          ///< what others write
};

/// One member's end. Everything is done in the turn of one collective after another.
///
/// Meetings have three counts: all show their calls, all have mapped what is shown (left out where
/// everybody knows that everybody has it already), all have done their parts.
///
/// Nobody meets before all members have memory to show: until then nothing is asked that would cost
/// programs that do not use it. When a member first has such memory it says from which *round* on
/// others may count on it; a round is a collective in which everybody hears of everybody. So when
/// that round is over everybody knows.
class DirectBoard {
 public:
  static constexpr std::size_t area_bytes();
  DirectBoard(std::shared_ptr<ShmChannel> channel, int area);

  /// A call begins here; whether all members meet for it.
  bool meets(const DirectCall& mine);
  /// After a collective in which everybody has heard of everybody.
  void end_round() { ++rounds_; }

  // --- A meeting ---

  void show(const DirectCall& mine);
  bool all_have_shown();
  const DirectCall& shown(int member) const { return control_block(member).call; }
  bool all_can() const;
  /// Whether everybody has what is shown mapped, as far as everybody knows.
  bool all_know() const;
  void map();
  bool all_have_mapped();
  /// After all_have_mapped(): whether it went well everywhere; otherwise nobody meets any more.
  bool went_well();
  /// Where another member's memory is in this process.
  std::byte* input(int member) const { return address(member, shown(member).input); }
  std::byte* output(int member) const { return address(member, shown(member).output); }
  /// Throws as Touch does: then what this member has read may not be what was shown.
  void leave();
  bool all_have_left();

  /// While it lives this member may touch the memory of others. Throws AbortedError when some
  /// member has given up.
  class Touch {
   public:
    explicit Touch(const DirectBoard& board);
    Touch(const Touch&) = delete;
    Touch& operator=(const Touch&) = delete;
    ~Touch() { board_.stop_touching(); }

   private:
    const DirectBoard& board_;
  };
  /// After this nobody uses what it reads of the memory that this member has shown, and nobody
  /// writes to it: waits for those that are at it. If one of them does not come back, the output is
  /// cut off (0 bytes: none is shown), which is tried for a few seconds where memory is short.
  void give_up(std::byte* output, std::size_t bytes) noexcept;

 private:
  struct Known {
    std::array<std::uint64_t, 2> tokens{};  ///< of a member's segments that are mapped
  };
  /// In the region, one for each member, which alone writes to it; `ended` is member 0's, for all.
  struct ControlBlock {
    alignas(128) std::atomic<std::uint64_t> since;  ///< the round; 0: has no memory to show
    alignas(128) std::atomic<std::uint64_t> shown;  ///< number of the meeting, as those below
    std::atomic<std::uint64_t> mapped;              ///< twice that, and 1 when it went well
    std::atomic<std::uint64_t> left;
    alignas(128) std::atomic<std::uint32_t> touching;
    alignas(128) std::atomic<std::uint32_t> ended;
    std::atomic<std::uint64_t> process;  ///< the same for members that are threads of one
    alignas(128) DirectCall call;
    Known known[most_at_once];  ///< by member
  };
  struct Peer {
    Known known;
    std::array<std::shared_ptr<SharedMapping>, 2> mappings;
  };

  enum class By : unsigned char { this_process, another_process };
  void stop_touching() const { control_block(me()).touching.store(0, std::memory_order_release); }
  bool has_ended() const { return control_block(0).ended.load(std::memory_order_seq_cst) != 0; }
  [[noreturn]] void throw_ended() const;
  bool is_touched(By whom) const;
  bool is_left_alone_within(std::chrono::milliseconds patience) const;
  ControlBlock& control_block(int member) const {
    return *channel_->at<ControlBlock>(member, area_);
  }
  int me() const { return channel_->rank(); }
  int size() const { return channel_->size(); }
  std::byte* address(int member, const HeapPlace& place) const;
  void map_one(Peer& peer, const HeapPlace& place, const HeapPlace& other);
  template <class Reached>
  bool all(Reached reached);

  std::shared_ptr<ShmChannel> channel_;
  int area_;
  std::vector<Peer> peers_;
  std::uint64_t meetings_ = 0;
  std::uint64_t rounds_ = 0;
  bool closed_ = false;
  int seen_ = 0;
};

constexpr std::size_t DirectBoard::area_bytes() { return sizeof(ControlBlock); }

}  // namespace hymn
