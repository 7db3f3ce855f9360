#include "control/token.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <charconv>
#include <cstdint>

#include "base/meeting.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

/// Before anything else of libcrypto, which would clean up at the end of the process: the thread of
/// the control plane may still use it then, where a program exits with its worlds alive.
void keep_crypto() {
  static const int kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  static_cast<void>(kept);
}

/// From the kernel, and not by libcrypto, whose start takes a millisecond: it is left to the thread
/// that first proves something.
void draw(std::span<std::byte> bytes) {
  // So few bytes come whole, and no signal cuts them short.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw ResourceError("the system gives no random numbers",
                        {.remedy = "check that getrandom() can be used here"});
}

[[noreturn]] void refuse_text(std::string_view why) {
  throw ConfigError("the text of a token " + std::string(why),
                    {.remedy = "give the 64 hexadecimal digits that the server was given"});
}

}  // namespace

Token Token::random() {
  Token token;
  draw(token.bytes_);
  return token;
}

Token Token::parse(std::string_view text) {
  if (text.size() != 2 * size)
    refuse_text("has " + std::to_string(text.size()) + " characters, not 64");
  Token token;
  for (std::size_t i = 0; i < size; ++i) {
    const char* const digits = text.data() + 2 * i;
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(digits, digits + 2, value, 16);
    if (error != std::errc() || stop != digits + 2) refuse_text("is not hexadecimal");
    token.bytes_[i] = std::byte(value);
  }
  return token;
}

std::string Token::text() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes_) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

bool operator==(const Token& a, const Token& b) {
  return CRYPTO_memcmp(a.bytes_.data(), b.bytes_.data(), Token::size) == 0;
}

Nonce random_nonce() {
  Nonce nonce{};
  draw(nonce);
  return nonce;
}

Proof prove(const Token& token, const ProofSubject& subject) {
  Packer message;
  message.text("hymn handshake 1")
      .number(static_cast<std::uint64_t>(subject.side))
      .text(subject.service)
      .number(static_cast<std::uint64_t>(subject.rank))
      .bytes(subject.server_nonce)
      .bytes(subject.client_nonce);
  Proof proof{};
  unsigned length = 0;
  keep_crypto();
  const auto* const made =
      HMAC(EVP_sha256(), token.bytes().data(), static_cast<int>(Token::size),
           reinterpret_cast<const unsigned char*>(message.packed().data()), message.packed().size(),
           reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (made == nullptr || length != proof.size())
    throw ResourceError("libcrypto cannot compute HMAC-SHA256 here",
                        {.remedy = "check the configuration of OpenSSL on this host"});
  return proof;
}

bool is_proof(const Token& token, const ProofSubject& subject, std::span<const std::byte> claimed) {
  const Proof expected = prove(token, subject);
  return claimed.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), claimed.data(), expected.size()) == 0;
}

}  // namespace hymn
