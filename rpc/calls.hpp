// The calls that this worker has made and that are not answered.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hymn/rpc_call.hpp"

namespace hymn::rpc::detail {

/// Threads that wait for one call.
class CallWait {
 public:
  /// Throws TimeoutError.
  void until(Timeout timeout);
  void done();
  bool is_done() const { return done_; }
  /// Who waits for it reads the links from now on, or no longer.
  void set_polled(bool polled) { is_polled_ = polled; }
  /// Until it is done, or the deadline has passed, whoever reads the links.
  void block(Deadline deadline);
  /// For the text of that error: "add", "worker1". `agent`: who can be waited with.
  void set_target(std::string what, std::string worker, int rank, std::weak_ptr<AgentState> agent);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};
  std::atomic<bool> is_polled_{false};
  std::weak_ptr<AgentState> agent_;
  std::string what_;
  std::string worker_;
  int rank_ = -1;
};

struct Call {
  PendingPtr pending{};
  int rank = -1;       ///< who is called
  std::string what{};  ///< "add"
  TimePoint started{};
  TimePoint limit = TimePoint::max();
};

/// Thread-safe. Who takes a call out of it ends it.
class CallTable {
 public:
  std::uint64_t add(Call call);
  std::optional<Call> take(std::uint64_t number);
  /// Only if it was made to this worker.
  std::optional<Call> take(std::uint64_t number, int rank);
  std::vector<Call> take_all_of(int rank);
  std::vector<Call> take_all();
  std::vector<Call> take_overdue(TimePoint now);
  /// When the next one will be.
  TimePoint next_limit() const;
  std::size_t size() const;

 private:
  using Calls = std::unordered_map<std::uint64_t, Call>;
  Call extract(Calls::iterator place);

  mutable std::mutex mutex_;
  Calls calls_;
  std::set<std::pair<TimePoint, std::uint64_t>> limits_;
  std::uint64_t last_ = 0;
};

}  // namespace hymn::rpc::detail
