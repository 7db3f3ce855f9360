// What all operations on a GPU do alike: they take their place in the order of launches, and are
// over when the event behind them has happened.
#pragma once

#include <exception>

#include "collectives/launch/launch_queue.hpp"
#include "collectives/operation.hpp"

namespace hymn {

class GpuOperation : public Operation {
 public:
  void start() override {
    queue_.add(launch_);
    queue_.advance();
  }

  bool step() final {
    if (has_landed_) return true;
    if (!is_through()) queue_.advance();
    if (launch_.stage() == GpuLaunch::Stage::failed) std::rethrow_exception(launch_.error());
    if (!is_through()) return false;
    if (launch_.event() == nullptr) return has_landed_ = true;
    const bool is_over = gpu_.has_happened(launch_.event());
    check();
    if (!is_over) return false;
    has_landed_ = true;
    gpu_.give_back(launch_.event());
    landed();
    return true;
  }

  bool is_enqueued() const final { return is_through(); }
  bool can_let_wait() const final { return true; }
  void let_wait(void* stream) final {
    if (launch_.event() != nullptr && !has_landed_)
      gpu_.wait_on(static_cast<cuda_api::Stream>(stream), launch_.event());
  }
  bool peers_need_steps() const final { return !is_through(); }

 protected:
  /// `launch` may be a part of the operation that does not live yet.
  GpuOperation(LaunchQueue& queue, GpuDevice& gpu, GpuLaunch& launch)
      : queue_(queue), gpu_(gpu), launch_(launch) {}

  /// After each look at the event, also when it has happened: what is given up may end early.
  /// Throws when it cannot come to its end.
  virtual void check() {}
  /// Once, after the event has happened. Throws when it was no end as it should be.
  virtual void landed() {}

  bool has_landed() const { return has_landed_; }
  LaunchQueue& queue() const { return queue_; }

 private:
  bool is_through() const { return launch_.stage() >= GpuLaunch::Stage::enqueued; }

  LaunchQueue& queue_;
  GpuDevice& gpu_;
  GpuLaunch& launch_;
  bool has_landed_ = false;
};

}  // namespace hymn
