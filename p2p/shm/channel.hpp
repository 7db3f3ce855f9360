// The members of a group that share a region: whose turn it is, who sleeps, whether somebody has
// given up.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/oversubscription.hpp"
#include "p2p/call_chain.hpp"
#include "p2p/operation.hpp"
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
  /// `members`: group ranks of those that share the region, ascending. `oversubscribed`: some of
  /// them share cores. `control_block`: index of the area that add_control_block() added to the
  /// plan. `warn` is told when memory is short.
  ShmChannel(std::unique_ptr<SharedRegion> region, std::vector<int> members, bool oversubscribed,
             int control_block, std::function<void(const std::string&)> warn);
  ~ShmChannel();

  int rank() const { return region_->me(); }
  int size() const { return region_->members(); }
  bool oversubscribed() const { return oversubscribed_; }
  /// How often a step may look at a flag that a peer is likely to set within nanoseconds, before it
  /// gives up for now. Where members share cores once is enough: the peer may need this one.
  int spin_count() const { return oversubscribed_ ? 1 : 32; }
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
  /// Called when a collective is started, as take_ticket(): the label of all calls up to this one.
  std::uint64_t add_call(std::uint64_t label) { return calls_.next(label); }
  /// In its turn: shows what this member calls.
  void show_call(std::uint64_t ticket, std::uint64_t label) {
    my_calls_[ticket % ControlBlock::shown_calls].store(call_word(ticket, label),
                                                        std::memory_order_release);
  }
  /// A member that has come to this turn with another label; -1: none, as far as can be seen. A few
  /// turns later it cannot be seen any more.
  int find_other(std::uint64_t ticket, std::uint64_t label) const;
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
    if (oversubscribed_) {
      // Ordered with the sleepers' count, so that no wake-up is missed; where each seems to have a
      // core, sleep is rare and short at first, and the order would cost more than it saves.
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
    if (common().sleepers.load(oversubscribed_ ? std::memory_order_seq_cst
                                               : std::memory_order_relaxed) != 0) [[unlikely]]
      wake_all();
  }
  /// To sleep: begin_park(), look once more whether there is something to do, sleep() if not, and
  /// end_park() in any case. sleep() returns when a member has published something, after at most
  /// `nanoseconds`, or without reason.
  unsigned begin_park();
  void sleep(unsigned seen, long nanoseconds);
  void end_park();

  // --- Where members are ---

  /// Notes the core that the calling thread runs on as this member's. In the first and then in
  /// every 16th of its calls only, for who has to wait does it anyway; where members are known to
  /// share cores in all of them.
  void note_core(std::uint64_t call) {
    if (oversubscribed_ || call % 16 == 0) note_core_now();
  }
  void note_core_now();
  /// Where that member was when it last noted its core, as seen from where this one did.
  Awaited where_is(int member) const {
    const int core = control_block(member).core.load(std::memory_order_relaxed);
    if (core == 0) return Awaited::somewhere;
    return core == control_block(rank()).core.load(std::memory_order_relaxed) ? Awaited::here
                                                                              : Awaited::elsewhere;
  }
  /// Where those members from `first` on are that have not come, as seen from the calling thread.
  template <class HasCome>
  Awaited awaited(int first, HasCome has_come) {
    note_core_now();
    auto found = Awaited::elsewhere;
    for (int member = first; member < size(); ++member) {
      if (member == rank()) continue;
      const Awaited one = where_is(member);
      if (one == Awaited::elsewhere || has_come(member)) continue;
      if (one == Awaited::here) return one;
      found = one;
    }
    return found;
  }
  Awaited awaited() {
    return awaited(0, [](int) { return false; });
  }
  /// How many sends and receives this member has started; near enough, with several threads.
  std::uint64_t count_message() {
    const std::uint64_t before = messages_.load(std::memory_order_relaxed);
    messages_.store(before + 1, std::memory_order_relaxed);
    return before;
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
  static int add_control_block(RegionPlan& plan);

 private:
  /// In the common page.
  struct Common {
    alignas(128) std::atomic<std::uint32_t> aborted;  ///< 0, then writing, then written
    char reason[1024];
    alignas(128) std::atomic<std::uint32_t> sleepers;
  };
  /// One for each member.
  struct ControlBlock {
    static constexpr std::size_t most_areas = 30;
    alignas(128) std::atomic<std::uint32_t> bell;
    std::atomic<std::uint32_t> asleep;
    alignas(128) std::atomic<int> core;  ///< its number + 1; 0: not noted yet
    /// What the member has called last, see call_word().
    static constexpr std::size_t shown_calls = 16;
    alignas(128) std::atomic<std::uint64_t> calls[shown_calls];
    /// For each area: 0 until it is asked for, then the bytes reserved + 1.
    alignas(128) std::atomic<std::uint64_t> reserved[most_areas];
  };
  static_assert(sizeof(Common) <= RegionPlan::common_bytes);

  /// Never 0, which is what memory is at first.
  static constexpr std::uint64_t call_word(std::uint64_t ticket, std::uint64_t label) {
    return (ticket + 1) << 32 | upper_bits(label, 32);
  }

  Common& common() const { return *reinterpret_cast<Common*>(region_->common()); }
  ControlBlock& control_block(int member) const {
    return *at<ControlBlock>(member, control_block_);
  }
  void wake_all();
  std::size_t find_usable_bytes(int area);
  [[noreturn]] void throw_aborted() const;

  std::unique_ptr<SharedRegion> region_;
  std::vector<int> members_;
  bool oversubscribed_;
  int control_block_;
  std::atomic<std::uint64_t> started_{0};
  std::atomic<std::uint64_t> finished_{0};
  std::atomic<std::uint64_t> messages_{0};
  CallChain calls_;
  std::atomic<std::uint64_t>* my_calls_;
  std::vector<std::size_t> usable_;
  std::function<void(const std::string&)> warn_;
};

/// Operation::park() for an operation that moves by what peers publish on the channel.
bool park_on(ShmChannel& channel, Operation& operation, long nanoseconds);

}  // namespace hymn
