// The bootstrap interface by which ranks find each other: small messages between numbered ranks.
//
// A World can be made from any Exchange. MPI is one, threads of one process are another; a
// key-value store or a launcher's own service can be one by implementing four functions. It carries
// the bootstrap, and, where nothing faster reaches a peer, the data of the collectives too.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

struct ExchangeMessage {
  int source = -1;
  std::vector<std::byte> bytes;
};

/// Implementations must allow all calls from any thread of the rank, unless they say otherwise.
class HYMN_API Exchange {
 public:
  static constexpr int from_anyone = -1;

  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends a copy of `bytes` and returns without waiting for the receiver. Messages with the same
  /// sender, receiver and tag arrive in the order sent. Throws NetworkError when the peer cannot be
  /// reached any more. Sending to oneself is allowed.
  virtual void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) = 0;

  /// The next message with this tag from this rank (or from_anyone), if one is there. Never waits.
  virtual std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) = 0;

  /// As send(); returns a number by which has_left() knows the message. To be overridden together
  /// with that.
  virtual std::uint64_t send_numbered(int to, std::uint64_t tag, std::span<const std::byte> bytes) {
    send(to, tag, bytes);
    return 0;
  }

  /// Whether the message with this number gets there even when this rank never calls again; where
  /// its calls are needed, this is one of them. It must not depend on other messages, whose
  /// receivers may come later. Who sends waits for this before it waits for anything that the
  /// exchange does not carry. Never waits itself.
  virtual bool has_left(std::uint64_t /*number*/) { return true; }

  /// Sleeps until something may have come or gone on its way, and no longer than `limit`: for who
  /// has waited for a while. False, at once: nothing would wake this exchange. Wakes without a
  /// reason, too; another thread may take what a sleeper waits for.
  virtual bool await_news(Duration /*limit*/) { return false; }

  /// What carries it, for messages: "MPI", "threads".
  virtual std::string name() const = 0;

  /// False once it must not be called any more (MPI was finalized).
  virtual bool is_open() const { return true; }

 private:
  friend class ExchangeMux;
  alignas(8) std::uint64_t worlds_ = 0;  // that were made over it; by std::atomic_ref alone
};

}  // namespace hymn
