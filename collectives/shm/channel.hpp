// The members of a group that share a region: whose turn it is, who sleeps, whether somebody has
// given up.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "p2p/shm/region.hpp"

namespace hymn {

/// One member's end. All collectives over a channel take turns: each member carries them out in the
/// order in which they were started, so that flags and slots can be counted and never reset. Sends
/// and receives have flags of their own and take no turn.
///
/// Members are numbered by their place among the members of the group on this host; where the whole
/// group is on one host this is the group rank.
class ShmChannel {
 public:
  /// `members`: group ranks of those that share the region, ascending. `crowded`: some of them
  /// share cores. `desk`: index of the area that open_desk() added to the plan. `warn` is told
  /// when memory is short.
  ShmChannel(std::unique_ptr<SharedRegion> region, std::vector<int> members, bool crowded, int desk,
             std::function<void(const std::string&)> warn);
  ~ShmChannel();

  int rank() const { return region_->me(); }
  int size() const { return region_->members(); }
  bool crowded() const { return crowded_; }
  /// How often a step may look at a flag that a peer is likely to set within nanoseconds, before it
  /// gives up for now. Where members share cores once is enough: the peer may need this one.
  int looks() const { return crowded_ ? 1 : 32; }
  const std::vector<int>& group_ranks() const { return members_; }
  SharedRegion& region() const { return *region_; }

  /// An area of a member as what lies there. The area must be reserved.
  template <class T>
  T* at(int member, int area) const {
    return reinterpret_cast<T*>(region_->area(member, area));
  }

  // --- Turns ---

  /// Called when a collective is started, in the order of the calls.
  std::uint64_t take_ticket() {
    // Not in one locked step: calls of collectives have an order, so no two start at once.
    const std::uint64_t ticket = started_.load(std::memory_order_relaxed);
    started_.store(ticket + 1, std::memory_order_relaxed);
    return ticket;
  }
  bool is_turn(std::uint64_t ticket) const {
    return finished_.load(std::memory_order_acquire) == ticket;
  }
  void end_turn(std::uint64_t ticket) {
    // Another thread of this member may sleep until its own call's turn comes.
    if (started_.load(std::memory_order_relaxed) == ticket + 1)
      finished_.store(ticket + 1, std::memory_order_release);
    else
      publish(finished_, ticket + 1);
  }

  // --- Telling others, and waiting to be told ---

  /// Sets a flag that others wait for, and wakes those that sleep. All that this thread wrote
  /// before is seen by whoever sees the flag.
  template <class T>
  void publish(std::atomic<T>& flag, T value) {
    if (crowded_) {
      // Ordered with the sleepers' count, so that no wake-up is missed; where each has a core,
      // sleep is rare and always short, and the order would cost more than it saves.
      flag.store(value, std::memory_order_seq_cst);
      if (common().sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]]
        wake_all();
    } else {
      flag.store(value, std::memory_order_release);
      wake_sleepers();
    }
  }
  /// After flags were changed in another way than by publish().
  void wake_sleepers() {
    // After a counter was changed: ordered as in publish() where it counts.
    if (common().sleepers.load(crowded_ ? std::memory_order_seq_cst : std::memory_order_relaxed) !=
        0) [[unlikely]]
      wake_all();
  }
  /// To sleep: lie_down(), look once more whether there is something to do, sleep() if not, and
  /// get_up() in any case. sleep() returns when a member has published something, after at most
  /// `nanoseconds`, or without reason.
  unsigned lie_down();
  void sleep(unsigned seen, long nanoseconds);
  void get_up();

  // --- Members that share cores ---

  /// Notes the core that the calling thread runs on as this member's, where members share cores.
  void note_core() {
    if (crowded_) note_core_now();
  }
  /// Whether that member was on this one's core when both last noted theirs.
  bool is_beside(int member) const {
    const int core = desk(rank()).core.load(std::memory_order_relaxed);
    return desk(member).core.load(std::memory_order_relaxed) == core;
  }

  // --- Areas that are reserved when they are first used ---

  /// How many bytes of this area every member has; unset while that is not known. Must be called by
  /// all members at the same point of the same operation until it is set, which takes no time
  /// afterwards. A shortage is told once, by a warning, on the member that has it.
  /// 0: some member has no memory for it at all.
  static constexpr std::size_t unknown_bytes = static_cast<std::size_t>(-1);
  std::size_t usable_bytes(int area) {
    const std::size_t known = usable_[static_cast<std::size_t>(area)];
    return known != unknown_bytes ? known : find_usable_bytes(area);
  }

  /// Reserves an area of this member's part without telling the others; bytes from its beginning.
  std::size_t reserve_own(int area);

  // --- The end ---

  /// Gives the channel up for all members; the first reason stays.
  void abort(const std::string& reason) noexcept;
  bool is_aborted() const { return common().aborted.load(std::memory_order_relaxed) != 0; }
  /// AbortedError with the reason.
  void throw_if_aborted() const {
    if (is_aborted()) [[unlikely]]
      throw_aborted();
  }

  /// Adds what a channel itself needs to a plan; must be the first area.
  static int open_desk(RegionPlan& plan);

 private:
  /// In the common page.
  struct Common {
    alignas(128) std::atomic<std::uint32_t> aborted;  ///< 0, then writing, then written
    char reason[1024];
    alignas(128) std::atomic<std::uint32_t> sleepers;
  };
  /// One for each member.
  struct Desk {
    static constexpr std::size_t most_areas = 30;
    alignas(128) std::atomic<std::uint32_t> bell;
    std::atomic<std::uint32_t> asleep;
    alignas(128) std::atomic<int> core;
    /// For each area: 0 until it is asked for, then the bytes reserved + 1.
    alignas(128) std::atomic<std::uint64_t> reserved[most_areas];
  };
  static_assert(sizeof(Common) <= RegionPlan::common_bytes);

  Common& common() const { return *reinterpret_cast<Common*>(region_->common()); }
  Desk& desk(int member) const { return *at<Desk>(member, desk_); }
  void note_core_now();
  void wake_all();
  std::size_t find_usable_bytes(int area);
  [[noreturn]] void throw_aborted() const;

  std::unique_ptr<SharedRegion> region_;
  std::vector<int> members_;
  bool crowded_;
  int desk_;
  std::atomic<std::uint64_t> started_{0};
  std::atomic<std::uint64_t> finished_{0};
  std::vector<std::size_t> usable_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace hymn
