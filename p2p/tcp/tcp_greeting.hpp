// The first word of each side of a connection, of fixed size, in which it proves that it knows the
// token of the world.
//
// Who listens has told its nonce, with its address, to all ranks. So who connects need not wait for
// a challenge, and may send messages behind its hello at once; who listens says nothing before the
// hello was right. Each connection that a rank makes to another has a number of its own, which the
// proofs cover, and a number is taken once: what was overheard is of no use later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "control/token.hpp"

namespace hymn::tcp {

/// A connection that is to be.
struct Contact {
  int from = -1;  ///< who connects
  int to = -1;    ///< who listens
  std::uint64_t turn = 0;
  std::uint32_t stream = 0;   ///< besides the main one, of that turn; 0: it is the main one
  std::uint32_t attempt = 0;  ///< to make that one, from 1 on
  Nonce nonce_of_listener{};
  Nonce nonce{};  ///< of who connects
};

inline constexpr std::size_t hello_bytes = 96;
inline constexpr std::size_t welcome_bytes = 48;
using Hello = std::array<std::byte, hello_bytes>;
using Welcome = std::array<std::byte, welcome_bytes>;

Hello hello_of(const Token& token, const Contact& contact);
/// Of a hello to `to`, who has given out that nonce. Throws NetworkError where it proves nothing.
Contact read_hello(std::span<const std::byte, hello_bytes> hello, const Token& token, int to,
                   const Nonce& nonce_of_listener);
/// `streams`: how many the listener takes.
Welcome welcome_of(const Token& token, const Contact& contact, std::uint64_t streams);
/// How many streams the listener takes. Throws NetworkError where it proves nothing.
std::uint64_t read_welcome(std::span<const std::byte, welcome_bytes> welcome, const Token& token,
                           const Contact& contact);

}  // namespace hymn::tcp
