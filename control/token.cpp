#include "control/token.hpp"

#include <sodium.h>
#include <sys/random.h>

#include <charconv>
#include <cstdint>

#include "base/meeting.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

static_assert(crypto_auth_hmacsha256_KEYBYTES == Token::size);
static_assert(crypto_auth_hmacsha256_BYTES == std::tuple_size_v<Proof>);

const unsigned char* as_unsigned(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

/// From the kernel: libsodium ends the process where that gives none.
void draw(std::span<std::byte> bytes) {
  // So few bytes come whole, and no signal cuts them short.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw ResourceError("the system provides no random numbers",
                        {.remedy = "check that getrandom() can be used here"});
}

/// Before all else of it, as libsodium wants it.
void start_sodium() {
  static const bool is_ready = sodium_init() >= 0;
  if (!is_ready)
    throw ResourceError("libsodium cannot be initialised",
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
  return sodium_memcmp(a.bytes_.data(), b.bytes_.data(), Token::size) == 0;
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
  start_sodium();
  Proof proof{};
  const Bytes& words = message.packed();
  crypto_auth_hmacsha256(reinterpret_cast<unsigned char*>(proof.data()), as_unsigned(words),
                         words.size(), as_unsigned(token.bytes()));
  return proof;
}

bool is_proof(const Token& token, const ProofSubject& subject, std::span<const std::byte> claimed) {
  const Proof expected = prove(token, subject);
  return claimed.size() == expected.size() &&
         sodium_memcmp(expected.data(), claimed.data(), expected.size()) == 0;
}

}  // namespace hymn
