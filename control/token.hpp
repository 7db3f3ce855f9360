// The secret of a job, and how two ends of a connection prove to each other that they know it.
//
// Each end draws a nonce; a proof is the HMAC-SHA256, with the token as its key, of who proves, to
// what service, as which rank, and both nonces. So a proof fits one connection and one end of it:
// it can be neither kept for later nor sent back. The token itself is never sent.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hymn {

/// 256 bits. A value.
class Token {
 public:
  static constexpr std::size_t size = 32;

  /// All bits zero: known to everybody, for what needs no secret.
  Token() = default;
  /// Drawn anew from the system's source for cryptography. Throws ResourceError when it has none.
  static Token random();
  /// From text(), in either case. Throws ConfigError, which does not quote the text: it is a
  /// secret.
  static Token parse(std::string_view text);

  /// 64 hexadecimal digits.
  std::string text() const;
  std::span<const std::byte, size> bytes() const { return bytes_; }

  /// Takes the same time whether tokens differ early or late.
  friend bool operator==(const Token& a, const Token& b);

 private:
  std::array<std::byte, size> bytes_{};
};

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// Throws ResourceError when the system provides no random numbers.
Nonce random_nonce();

enum class Side : unsigned char { server = 1, client = 2 };

/// What a proof is about.
struct ProofSubject {
  Side side{};               ///< who proves
  std::string_view service;  ///< "link", "store": what the connection is for
  int rank = -1;             ///< the client's
  Nonce server_nonce{};
  Nonce client_nonce{};
};

Proof prove(const Token& token, const ProofSubject& subject);

/// Takes the same time whatever `claimed` is. False for one of another length, too.
bool is_proof(const Token& token, const ProofSubject& subject, std::span<const std::byte> claimed);

}  // namespace hymn
