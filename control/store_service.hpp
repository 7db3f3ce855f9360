// The server of a TcpStore without its network: takes requests, and answers each now or later.
#pragma once

#include <functional>
#include <list>
#include <unordered_map>

#include "control/store_map.hpp"
#include "control/store_protocol.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// Not thread-safe.
class StoreService {
 public:
  using Answer = std::function<void(int client, const StoreReply& reply)>;

  explicit StoreService(Answer answer) : answer_(std::move(answer)) {}

  /// True if it is answered later: next_deadline() may have changed.
  bool handle(int client, const StoreRequest& request, TimePoint now);
  /// What the client waits for is forgotten.
  void forget(int client);
  /// Answers those that have waited long enough.
  void expire(TimePoint now);
  /// When expire() is due next.
  Deadline next_deadline() const;

 private:
  struct Waiter {
    int client;
    StoreRequest request;
    Deadline deadline;
  };
  using Waiters = std::list<Waiter>;

  StoreReply reply_to(const StoreRequest& request);
  /// False if it has been answered.
  bool wait(Waiter waiter, TimePoint now);
  Waiters take(const std::function<bool(const Waiter&)>& wanted);
  /// Answers, if all its keys are there.
  bool serve(const Waiter& waiter);
  void wake(const std::string& key, TimePoint now);

  Answer answer_;
  StoreMap map_;
  /// Each waits for the first of its keys that is missing.
  std::unordered_map<std::string, Waiters> waiting_;
};

}  // namespace hymn
