// Messages between the members of one group: what a transport is, for all that use one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hymn/error.hpp"
#include "hymn/request.hpp"
#include "p2p/call_chain.hpp"
#include "p2p/operation.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// Tells messages apart. Collectives and the user's sends and receives never match each other.
struct MessageTag {
  bool user = false;
  std::uint64_t value = 0;
  std::uint64_t label = 0;  ///< of collectives: what the call asked for, and those before it

  static MessageTag of_user(int tag) { return {true, static_cast<std::uint64_t>(tag)}; }
  /// An operation may exchange messages in up to 32 phases.
  static MessageTag of_collective(std::uint64_t sequence, unsigned phase, std::uint64_t label) {
    return {false, sequence * 32 + phase, label};
  }
  /// As much of it as so many bits hold, for carriers which match messages by that: messages of
  /// calls that do not fit together do not match. Tags are used again after 2^17 collectives, which
  /// is safe: messages between two ranks with one tag stay in order, and all ranks start their
  /// collectives in the same order.
  std::uint64_t packed(unsigned bits) const {
    constexpr unsigned value_bits = 22;
    const std::uint64_t low = value & ((std::uint64_t{1} << std::min(bits, value_bits)) - 1);
    return bits <= value_bits ? low : low | upper_bits(label, bits - value_bits) << value_bits;
  }
};

/// What a collective throws to which less has come than it wants.
inline UsageError short_message(const std::string& sender, std::uint64_t bytes,
                                std::uint64_t wanted) {
  return UsageError(
      sender + " has sent " + std::to_string(bytes) + " bytes for " + std::to_string(wanted),
      {.remedy =
           "give the same counts on all ranks: what one sends to another, the other receives"});
}

/// The messages that one operation has in flight. Peers are group ranks. Buffers must stay valid
/// until test() has returned true, or what abandon() returned is done.
class Transfers {
 public:
  virtual ~Transfers() = default;
  virtual void send(int peer, MessageTag tag, const ConstBufferView& view) = 0;
  /// A message longer than the buffer makes test() throw UsageError, and in a collective a shorter
  /// one, too. `peer` may be any_source.
  virtual void recv(int peer, MessageTag tag, const BufferView& view) = 0;
  /// True when all have completed.
  virtual bool test() = 0;
  /// Of the last recv, after completion.
  virtual RecvStatus status() const = 0;
  /// As Operation::abandon().
  virtual std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept = 0;
};

class MessagePort {
 public:
  virtual ~MessagePort() = default;
  /// Whether it can carry elements of this request's types.
  virtual Verdict can_carry(const Request& request) const = 0;
  virtual std::unique_ptr<Transfers> open() = 0;
  /// What a receive of the user's from `peer`, which may be any_source, would get first, if it has
  /// come: its group rank and tag, and its bytes as the count. It stays where it is; receives that
  /// wait already have theirs first. Only asked of ports that carry the user's messages.
  virtual std::optional<RecvStatus> probe(int /*peer*/, MessageTag /*tag*/) {
    throw UnsupportedError("messages of collectives alone come here");
  }
  /// Operation::can_park(), park() and awaited() of an operation over this port.
  virtual bool can_park() const { return false; }
  virtual bool park(Operation& operation, long /*nanoseconds*/) { return operation.step(); }
  virtual Awaited awaited() const { return Awaited::somewhere; }

  /// Of the collective with that label, which starts over this port now, and of all before it.
  /// Ports that are not alone in carrying collectives between the same members count these with all
  /// others.
  virtual std::uint64_t add_call(std::uint64_t label) { return calls_.next(label); }

 private:
  CallChain calls_;
};

}  // namespace hymn
