// The control plane of ranks that are threads of one process: a desk, and nothing between.
#pragma once

#include <memory>

#include "control/agent.hpp"
#include "control/desk.hpp"

namespace hymn::control {

/// Thread-safe; shared by all ranks.
class Switchboard {
 public:
  explicit Switchboard(int ranks);

  /// From now on what the desk has for this rank goes to `agent`, on the thread whose message has
  /// caused it. What several threads cause may come in another order; but a verdict comes before
  /// all that follows from it.
  void connect(int rank, std::shared_ptr<Agent> agent);
  void disconnect(int rank);
  void post(int rank, const Message& message);

 private:
  struct Outgoing {
    std::shared_ptr<Agent> to;
    Message message;
  };
  /// Under the lock does what may make the desk send; without it delivers what that was.
  template <class Action>
  void act(Action&& action);

  std::mutex mutex_;
  std::vector<std::shared_ptr<Agent>> agents_;
  std::vector<Outgoing> outgoing_;
  Desk desk_;
};

}  // namespace hymn::control
