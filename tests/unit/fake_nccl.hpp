// A double of NCCL: it makes communicators out of nothing, notes the calls, and fails or hangs as
// the test wants.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/nccl_api.hpp"

namespace hymn::test {

/// One at a time: the functions know no other. Thread-safe.
class FakeNccl {
 public:
  FakeNccl();
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  nccl_api::Functions functions() const;

  /// Calls of these names ("init", "split", "abort", "finalize") do not return before release().
  void hold(const std::string& name);
  void release();
  /// The next call of this name returns that.
  void fail(const std::string& name, nccl_api::Result result);
  /// What every communicator says of itself from now on.
  void set_state(nccl_api::Result state) { state_ = state; }

  /// "init 0 of 2", "abort 1": with the number of the communicator it is about, from 1.
  std::vector<std::string> calls() const;
  bool has_called(const std::string& call) const;
  /// Waits until it has been made, or a minute has passed.
  bool wait_for(const std::string& call) const;
  nccl_api::Config last_config() const;
  std::string last_net_name() const;
  std::vector<nccl_api::UniqueId> ids() const;  ///< of all inits

  struct Calls;  // the functions themselves

 private:
  nccl_api::Result enter(const std::string& name, const std::string& call);
  nccl_api::Comm make();
  static std::string number_of(nccl_api::Comm comm);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> held_;
  std::map<std::string, nccl_api::Result> failures_;
  std::atomic<nccl_api::Result> state_{nccl_api::success};
  std::vector<std::string> calls_;
  std::vector<nccl_api::UniqueId> ids_;
  nccl_api::Config config_;
  std::string net_name_;
  std::uintptr_t made_ = 0;
};

}  // namespace hymn::test
