// The control plane of ranks that are threads of one process: a coordinator, and nothing between.
#pragma once

#include <deque>
#include <memory>

#include "control/agent.hpp"
#include "control/coordinator.hpp"

namespace hymn::control {

/// Thread-safe; shared by all ranks.
class InProcessCoordinator {
 public:
  explicit InProcessCoordinator(int ranks);

  /// From now on what the coordinator has for this rank goes to `agent`, on a thread that is in a
  /// call of this, and to all agents in one order; a verdict comes before all that follows from it.
  void connect(int rank, std::shared_ptr<Agent> agent);
  void disconnect(int rank);
  /// For a rank that is gone without a word: what all others hear of it.
  void bury(const PeerNews& news);
  void post(int rank, const Message& message);

 private:
  struct Outgoing {
    std::shared_ptr<Agent> to;
    Message message;
  };
  /// Under the lock does what may make the coordinator send; without it delivers what that was.
  template <class Action>
  void act(Action&& action);
  void deliver();

  std::mutex mutex_;
  std::vector<std::shared_ptr<Agent>> agents_;
  std::deque<Outgoing> outgoing_;
  bool is_delivering_ = false;
  Coordinator coordinator_;
};

}  // namespace hymn::control
