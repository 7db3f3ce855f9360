// Messages between the members of one group: what the pairwise algorithms are written against.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collectives/algorithm.hpp"

namespace hymn {

/// Tells messages apart. Collectives and the user's sends and receives never match each other.
struct MessageTag {
  bool user = false;
  std::uint64_t value = 0;

  static MessageTag of_user(int tag) { return {true, static_cast<std::uint64_t>(tag)}; }
  /// An operation may exchange messages in up to 64 phases.
  static MessageTag of_collective(std::uint64_t sequence, unsigned phase) {
    return {false, sequence * 64 + phase};
  }
};

/// The messages that one operation has in flight. Peers are group ranks. Buffers must stay valid
/// until test() has returned true, or what abandon() returned is done.
class Transfers {
 public:
  virtual ~Transfers() = default;
  virtual void send(int peer, MessageTag tag, const ConstBufferView& view) = 0;
  /// A message longer than the buffer makes test() throw UsageError. `peer` may be any_source.
  virtual void recv(int peer, MessageTag tag, const BufferView& view) = 0;
  /// True when all have completed.
  virtual bool test() = 0;
  /// Of the last recv, after completion.
  virtual RecvStatus status() const = 0;
  /// As Operation::abandon().
  virtual std::unique_ptr<Residue> abandon(const std::string& reason) noexcept = 0;
};

class MessagePort {
 public:
  virtual ~MessagePort() = default;
  virtual std::string_view path() const = 0;
  /// Whether it can carry elements of this request's types.
  virtual Verdict can_carry(const Request& request) const = 0;
  virtual std::unique_ptr<Transfers> open() = 0;
  /// Operation::can_rest() and rest() of an operation over this port.
  virtual bool can_rest() const { return false; }
  virtual bool rest(Operation& operation, long /*nanoseconds*/) { return operation.step(); }
};

/// An operation that moves by messages alone.
class PortOperation : public Operation {
 public:
  explicit PortOperation(MessagePort& port) : port_(&port) {}
  bool can_rest() const override { return port_->can_rest(); }
  bool rest(long nanoseconds) override { return port_->rest(*this, nanoseconds); }

 private:
  MessagePort* port_;
};

}  // namespace hymn
