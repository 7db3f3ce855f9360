// Where a simulation (hymn/simulation.hpp) may let another thread go on: in all other programs one
// look at a pointer, on ways that are slow anyway.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/private.hpp"

namespace hymn {

/// Who decides in a simulation which thread goes on. Called by the threads themselves; those that
/// it does not know go on at once.
class Schedule {
 public:
  Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  virtual ~Schedule() = default;

  /// The calling thread has shown others something for which they may wait.
  virtual void shown() noexcept = 0;
  /// It has nothing to do until others have, and looks again after so long at the latest. False: it
  /// is none of the simulation's. Throws where its rank is to end.
  virtual bool waits(long nanoseconds) = 0;
  /// It works for all ranks of the process, whichever has started it.
  virtual void serves_all() noexcept = 0;
};

extern std::atomic<Schedule*> schedule_of_process;  // null: nothing is simulated

inline Schedule* simulated_schedule() {
  return schedule_of_process.load(std::memory_order_relaxed);
}
/// Before the first simulated thread starts, and when the last has ended.
HYMN_PRIVATE void set_simulated_schedule(Schedule* schedule) noexcept;

/// The time of the simulation that the calling thread is in, in nanoseconds.
std::uint64_t simulated_stamp();

inline void show_to_schedule() noexcept {
  if (Schedule* const schedule = simulated_schedule()) [[unlikely]]
    schedule->shown();
}
/// For what a program asks again and again until it is so, without waiting: it is not.
inline void leave_turn_to_others() {
  if (Schedule* const schedule = simulated_schedule()) [[unlikely]]
    schedule->waits(1000);
}
inline bool answered(bool is_so) {
  if (!is_so) leave_turn_to_others();
  return is_so;
}

}  // namespace hymn
