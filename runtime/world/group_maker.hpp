// Makes groups on a thread of its own, one after the other, while the application goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/patience.hpp"
#include "topology/cpu_set.hpp"

namespace hymn {

/// One order for all: members of several groups that made them in different orders would wait for
/// each other. Any thread may call anything, but finish() is for one.
class GroupMaker {
 public:
  /// The thread will be bound to `cpus`.
  explicit GroupMaker(CpuSet cpus) : cpus_(std::move(cpus)) {}
  GroupMaker(const GroupMaker&) = delete;
  GroupMaker& operator=(const GroupMaker&) = delete;
  ~GroupMaker() { finish(); }

  /// `make` is called after all that was added before; it must not throw. On this thread, before
  /// this returns, where no other can be started, or it has ended.
  void add(std::function<void()> make);
  /// Returns when all that was added has been made; at once when it is called by what is made.
  /// False: the patience has ended before.
  bool settle(const Patience& patience);
  /// Waits for all that was added, as long as it takes, and ends the thread.
  void finish();

 private:
  void run();
  /// False: none can be started.
  bool has_thread();
  bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  CpuSet cpus_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false;  // with one that is not in waiting_ any more
  bool ending_ = false;
  std::thread thread_;
};

/// The same without an order, for what only some ranks make, each in an order of its own: nothing
/// waits for anything that was added before, so each has a thread of its own, which ends with it.
/// Any thread may call anything, but finish() is for one, and for none of these threads.
class GroupMakers {
 public:
  /// So many threads at once.
  static constexpr std::size_t most = 256;

  explicit GroupMakers(CpuSet cpus) : cpus_(std::move(cpus)) {}
  GroupMakers(const GroupMakers&) = delete;
  GroupMakers& operator=(const GroupMakers&) = delete;
  ~GroupMakers() { finish(); }

  /// `make` must not throw. It is called here, before this returns, where no thread can be started,
  /// and once they have ended.
  /// Throws ResourceError where so many are being made already.
  void add(std::function<void()> make);
  /// Returns when all that was added has been made, and what that has added. As GroupMaker.
  bool settle(const Patience& patience);
  void finish();

 private:
  using Threads = std::list<std::thread>;

  /// False: no thread can be started.
  bool start(const std::shared_ptr<std::function<void()>>& make);
  void run(Threads::iterator own, std::function<void()>& make);
  void join_ended();

  CpuSet cpus_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool ending_ = false;
  Threads running_;
  Threads ended_;  ///< as good as: they have let go of everything here
};

}  // namespace hymn
