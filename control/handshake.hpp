// The first three frames of a connection, in which both ends prove that they know the token.
//
//   server -> client   challenge   the server's nonce
//   client -> server   hello       the client's rank, nonce and proof
//   server -> client   welcome     the server's proof; empty: it refuses the client
//
// Neither side says anything else before it has seen the other's proof.
#pragma once

#include <string>

#include "base/meeting.hpp"
#include "control/token.hpp"

namespace hymn {

/// The server's half, for one connection.
class ServerHandshake {
 public:
  ServerHandshake(const Token& token, std::string service);

  /// What to send first.
  Bytes challenge() const;

  struct Guest {
    int rank = -1;  ///< as the client says, which knows the token
    Bytes welcome;  ///< what to send back
  };
  /// Throws NetworkError where the hello is malformed or proves nothing.
  Guest accept(std::span<const std::byte> hello) const;

 private:
  Token token_;
  std::string service_;
  Nonce nonce_;
};

/// What a server sends in place of a welcome, so that the client need not guess.
inline Bytes refusal() { return {}; }

/// The client's half, for one connection.
class ClientHandshake {
 public:
  ClientHandshake(const Token& token, std::string service, int rank);

  /// Throws NetworkError where the challenge is malformed.
  Bytes hello(std::span<const std::byte> challenge);
  /// Throws NetworkError where the server proves nothing, or refuses this client.
  void check(std::span<const std::byte> welcome) const;

 private:
  Token token_;
  std::string service_;
  int rank_;
  Nonce nonce_;
  Nonce server_nonce_{};
};

}  // namespace hymn
