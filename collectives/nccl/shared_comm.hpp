// A communicator of NCCL as the rank that uses it and the threads that are in NCCL for it share it.
//
// Every call that may block is made on a thread of its own, so that whoever waits sees its deadline
// even then. A thread that NCCL never lets go is left behind, perhaps until the process ends; it
// keeps this alive.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/private.hpp"
#include "gpu/cuda_api.hpp"
#include "gpu/nccl_api.hpp"

namespace hymn {

/// Thread-safe.
class SharedComm : public std::enable_shared_from_this<SharedComm> {
 public:
  /// `enter_gpu` makes the rank's GPU current on the thread that calls it. `cuda` outlives the
  /// process's threads; null: there is none.
  HYMN_PRIVATE SharedComm(const nccl_api::Functions& nccl, std::function<void()> enter_gpu,
                          const cuda_api::Functions* cuda = nullptr);

  /// Calls `make` on a thread; it makes the communicator, if `gives_one`, and has NCCL put it where
  /// it is told. Once.
  HYMN_PRIVATE void begin(std::function<void(nccl_api::Comm*)> make, bool gives_one = true);
  /// Whether that call has returned. Throws what it threw.
  HYMN_PRIVATE bool has_returned();
  /// Null: NCCL has not given one yet.
  HYMN_PRIVATE nccl_api::Comm comm() const;

  /// For a call on the communicator: until what it returns is released, NCCL frees nothing, though
  /// the communicator is given up meanwhile. Throws AbortedError where it has been, or has ended.
  std::shared_ptr<void> use();

  /// Gives the communicator up, now or as soon as there is one. Never blocks.
  HYMN_PRIVATE void abort() noexcept;
  /// Takes it down in good order, when nothing is in flight on it on any rank. Never blocks.
  HYMN_PRIVATE void finish();
  /// Whether NCCL holds nothing of it any more, neither buffers nor memory, and what was to be done
  /// then has been done.
  HYMN_PRIVATE bool is_gone() const;
  /// Calls `act`, which throws nothing, when NCCL has let go: on the thread that ends the
  /// communicator, or now. Never, where that thread could not be started or does not come back.
  void when_gone(std::function<void()> act);

 private:
  enum class Stage : unsigned char { fresh, calling, returned, ending, gone };
  void run_call(const std::function<void(nccl_api::Comm*)>& make);
  void end_on_thread(void (SharedComm::*end)()) noexcept;
  void await_users();
  void do_abort();
  void do_finish();
  void let_go();

  const nccl_api::Functions nccl_;
  std::function<void()> enter_gpu_;  // of the thread that makes it
  const cuda_api::Functions* const cuda_;
  mutable std::mutex mutex_;
  Stage stage_ = Stage::fresh;
  bool gives_one_ = true;
  bool given_up_ = false;
  int users_ = 0;
  std::exception_ptr error_;
  std::vector<std::function<void()>> when_gone_;
  nccl_api::Comm comm_ = nullptr;  // NCCL may set it some time after its call has returned
};

}  // namespace hymn
