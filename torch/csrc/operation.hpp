// An operation in flight, and what lives until it is over.
#pragma once

#include <ATen/core/ivalue.h>
#include <hymn/hymn.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device_stream.hpp"
#include "tensors.hpp"

namespace hymn_torch {

using Future = c10::ivalue::Future;

/// One or several of hymn's works with their tensors. Any number of threads may wait for it.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation() { ++in_flight_; }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  /// Before it is shared: its memory, what it returns, and its parts.
  Buffers& buffers() { return buffers_; }
  void add_result(const at::Tensor& tensor) { results_.push_back(tensor); }
  void add_work(hymnWork_t work) { works_.push_back(work); }
  bool has_works() const { return !works_.empty(); }
  /// While calls are only gathered (startCoalescing) nothing can be waited for.
  void set_gathering(bool gathering) { is_gathering_.store(gathering, std::memory_order_release); }
  bool is_gathering() const { return is_gathering_.load(std::memory_order_acquire); }
  /// What was gathered is never made.
  void cancel();
  void note_gathered() { has_gathered_ = true; }
  bool has_gathered() const { return has_gathered_; }
  /// Its own, in seconds, which hymn knows, too.
  void set_limit(double seconds) { limit_ = seconds; }
  double limit() const { return limit_; }
  /// It is on the stream of a GPU, as a whole, and over there when this is reached.
  void set_end(DeviceEnd end) { end_.emplace(std::move(end)); }
  /// It is a receive whose source is asked for.
  void set_receive() { is_receive_ = true; }
  /// Called once, when it is over, on the thread that sees that, or here where it is over already;
  /// with whether it has succeeded.
  void on_end(std::function<void(bool)> end);

  /// For at most `seconds` where these are positive. Throws its error; an exception of a signal's
  /// handler on the main thread; or a DistBackendError when the seconds pass, after which it goes
  /// on. On a GPU the current stream waits in place of the host, unless seconds are given, or
  /// HYMN_BLOCKING_WAIT is set.
  void wait(double seconds);
  /// The current stream waits for what is on a GPU; results in the memory of the host are there
  /// when the operation is over.
  void synchronize() const {
    if (end_) end_->hold_up_current();
  }
  /// The threads on which the callbacks of a future run that this completes.
  enum class CallbacksOn { this_thread, their_threads };
  /// Moves it on; whether it is over.
  bool test(CallbacksOn where = CallbacksOn::this_thread);
  bool is_over() const { return is_over_.load(std::memory_order_acquire); }
  /// Null while it is in flight, or when it has succeeded.
  std::exception_ptr error() const;
  /// Where a receive has got its message from: a rank of hymn's world; -1 before it is over.
  int source() const { return source_; }
  const std::vector<at::Tensor>& results() const { return results_; }
  /// Completed on whatever thread sees the end; on a GPU at once, in the order of its stream.
  c10::intrusive_ptr<Future> future();

  /// How many are not over yet, as far as somebody has looked.
  static int in_flight() { return in_flight_; }

 private:
  /// The error that it ends with; null: it has succeeded. Throws only what ends the wait alone.
  std::exception_ptr wait_for(hymnWork_t work, double seconds) const;
  void wait_on_host(double seconds);
  c10::intrusive_ptr<Future> make_future() const;
  void finish(std::exception_ptr error, CallbacksOn where = CallbacksOn::this_thread);
  void read_source();

  static std::atomic<int> in_flight_;

  std::vector<hymnWork_t> works_;
  std::optional<DeviceEnd> end_;
  Buffers buffers_;
  std::vector<at::Tensor> results_;
  std::vector<std::function<void(bool)>> on_end_;
  std::atomic<bool> is_gathering_{false};
  bool has_gathered_ = false;
  bool is_receive_ = false;
  double limit_ = 0;
  int source_ = -1;

  mutable std::mutex mutex_;
  std::atomic<bool> is_over_{false};
  std::exception_ptr error_;
  c10::intrusive_ptr<Future> future_;
};

}  // namespace hymn_torch
