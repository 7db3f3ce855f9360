// Moves the operations in flight of one world forward: on the thread that waits, and, if asked for,
// on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/operation.hpp"
#include "topology/cpu_set.hpp"

namespace hymn {

namespace detail {
class WorkState;
}

class ProgressEngine {
 public:
  /// `may_drive` tells whether the calling thread may move operations forward.
  /// A thread of its own is bound to `own_cpus`.
  ProgressEngine(std::function<bool()> may_drive, bool crowded, bool own_thread, CpuSet own_cpus);
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  void add(std::shared_ptr<detail::WorkState> work);
  /// Keeps what an abandoned operation left until it is done.
  void keep(std::unique_ptr<Residue> residue);

  /// Nothing is in flight.
  bool is_idle() const { return pending_count_.load(std::memory_order_acquire) == 0; }
  bool has_one() const { return pending_count_.load(std::memory_order_acquire) == 1; }
  /// Forgets what has completed.
  void sweep();
  /// Nothing is in flight, nor left behind by what was given up.
  bool is_drained();
  /// One step for everything in flight. Never throws: failures go to the works themselves.
  void step_all();
  /// Steps until nothing in flight has peers that wait for its steps: to be called before this
  /// thread blocks elsewhere.
  void finish_what_peers_need() {
    if (!is_idle()) step_what_peers_need();
  }
  /// The works in flight that satisfy `wanted`, oldest first.
  std::vector<std::shared_ptr<detail::WorkState>> pending(
      const std::function<bool(const detail::WorkState&)>& wanted) const;

  /// Those in flight whose limit has passed, and for which nobody waits with another one.
  struct Overdue {
    std::uint64_t uid = 0;
    OpType type = OpType::barrier;
    std::uint64_t sequence = 0;
  };
  std::vector<Overdue> overdue(TimePoint now) const;

  bool crowded() const { return crowded_; }
  bool has_own_thread() const { return has_own_thread_; }
  /// Ends the own thread. What is still kept is handed over, for it must outlive the world.
  std::vector<std::unique_ptr<Residue>> shut_down();

 private:
  void run_own_thread();
  void step_what_peers_need();

  std::function<bool()> may_drive_;
  bool crowded_;
  bool has_own_thread_;
  CpuSet own_cpus_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<detail::WorkState>> works_;
  std::vector<std::unique_ptr<Residue>> residues_;
  std::atomic<std::size_t> pending_count_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace hymn
