// Makes groups on a thread of its own, one after the other, while the application goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

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
  /// this returns, where no other can be started.
  void add(std::function<void()> make);
  /// Returns when all that was added has been made; at once when it is called by what is made.
  /// False: the patience has ended before.
  bool settle(const Patience& patience);
  /// Nothing is being made.
  bool is_idle();
  /// Waits for all that was added, as long as it takes, and ends the thread. Nothing may be added
  /// any more.
  void finish();

 private:
  void run();
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
/// waits for anything that was added before. Any thread may call anything, but finish() is for one.
class GroupMakers {
 public:
  explicit GroupMakers(CpuSet cpus) : cpus_(std::move(cpus)) {}

  void add(std::function<void()> make);
  bool settle(const Patience& patience);
  void finish();

 private:
  std::unique_ptr<GroupMaker> take_idle();

  CpuSet cpus_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<GroupMaker>> makers_;
};

}  // namespace hymn
