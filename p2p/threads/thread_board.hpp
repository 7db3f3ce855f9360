// Where the members of a group of threads meet for one collective after another and show each other
// their memory, without locks on the way.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hymn {

/// A board has a fixed ring of meetings; meeting number s (from 1) of every member is the same one.
/// A meeting goes through three counts: members arrive, each showing a pointer; when all have
/// arrived each does its part, reading and writing the memory of the others; when all have done
/// their part each leaves. The last one to leave opens the slot for a later meeting.
///
/// Giving up is safe: nobody touches a member's memory after abandon() has returned. It ends the
/// board.
class ThreadBoard {
 public:
  explicit ThreadBoard(int members);

  /// One member's way through one meeting.
  class Visit {
   public:
    Visit(ThreadBoard& board, int member, std::uint64_t number, const void* shown)
        : board_(&board), member_(member), number_(number), shown_(shown) {}

    /// Before anything else, where the number was not known at first.
    void set_number(std::uint64_t number) { number_ = number; }
    /// True once all members have arrived. Throws AbortedError when the board has ended.
    bool try_arrive();
    /// After try_arrive(): what the others show, by member. Valid within begin_part … end_part.
    const void* shown_by(int member) const;
    /// Brackets the work on the memory of others. begin_part throws when the board has ended.
    void begin_part();
    void end_part();
    /// In its place, where it has failed: nobody leaves then, until the board is ended.
    void fail_part();
    /// After end_part(): true once all have done their parts; then this member has left.
    bool try_leave();
    /// Gives up at any point, ending the board for all; waits for parts that are under way.
    void abandon(const std::string& reason) noexcept;

   private:
    ThreadBoard* board_;
    int member_;
    std::uint64_t number_;
    const void* shown_;
    bool arrived_ = false;
  };

  /// Ends the board: everybody who waits gets AbortedError with this reason.
  void abort(const std::string& reason) noexcept;

 private:
  // The counts of one meeting in one word, so that they change together.
  struct MeetingSlot {
    std::atomic<std::uint64_t> number{0};  ///< of the meeting that is held here
    std::atomic<std::uint64_t> counts{0};
    std::atomic<int> left{0};
    std::vector<const void*> shown;
  };
  static constexpr std::size_t ring = 64;
  static constexpr std::uint64_t one_arrived = 1;
  static constexpr std::uint64_t one_working = 1ull << 20;
  static constexpr std::uint64_t one_done = 1ull << 40;
  static constexpr std::uint64_t mask = (1ull << 20) - 1;
  static constexpr std::uint64_t ended = 1ull << 63;

  static std::uint64_t arrived(std::uint64_t counts) { return counts & mask; }
  static std::uint64_t working(std::uint64_t counts) { return (counts >> 20) & mask; }
  static std::uint64_t done(std::uint64_t counts) { return (counts >> 40) & mask; }

  MeetingSlot& slot(std::uint64_t number) { return slots_[number % ring]; }
  [[noreturn]] void throw_ended();

  std::uint64_t members_;
  std::array<MeetingSlot, ring> slots_;
  std::mutex reason_mutex_;
  std::string reason_;
};

}  // namespace hymn
