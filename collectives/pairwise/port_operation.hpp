// What the algorithms that exchange messages have in common.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/call_label.hpp"
#include "p2p/message_port.hpp"

namespace hymn {

/// An operation that moves by messages alone.
class PortOperation : public Operation {
 public:
  PortOperation(MessagePort& port, const Call& call) : call_(call), port_(&port) {}
  bool can_park() const override { return port_->can_park(); }
  bool park(long nanoseconds) override { return port_->park(*this, nanoseconds); }
  Awaited awaited() const override { return port_->awaited(); }

 protected:
  /// The first thing that a collective does when it is started.
  void enter() { label_ = port_->add_call(call_label(call_)); }
  MessageTag tag(unsigned phase) const {
    return MessageTag::of_collective(call_.order, phase, label_);
  }

  Call call_;

 private:
  MessagePort* port_;
  std::uint64_t label_ = 0;
};

}  // namespace hymn
