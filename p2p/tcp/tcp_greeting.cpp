#include "p2p/tcp/tcp_greeting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

constexpr std::uint32_t greeting_magic = 0x546d7968;  // "hymT"
constexpr std::uint32_t greeting_version = 3;

struct PackedHello {
  std::uint32_t magic;
  std::uint32_t version;
  std::int32_t from;
  std::int32_t to;
  std::uint64_t turn;
  std::uint32_t stream;
  std::uint32_t attempt;
  Nonce nonce;
  Proof proof;
};
static_assert(sizeof(PackedHello) == hello_bytes);

struct PackedWelcome {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t streams;
  Proof proof;
};
static_assert(sizeof(PackedWelcome) == welcome_bytes);

template <class Word, class Packed>
Word bytes_of(const Packed& packed) {
  Word word;
  std::memcpy(word.data(), &packed, word.size());
  return word;
}

template <class Packed>
Packed read(std::span<const std::byte> word) {
  Packed packed;
  std::memcpy(&packed, word.data(), sizeof packed);
  if (packed.magic != greeting_magic)
    throw NetworkError("the other end does not speak hymn's protocol");
  if (packed.version != greeting_version)
    throw NetworkError(fmt::format("the other end speaks version {} of the protocol, not {}",
                                   packed.version, greeting_version),
                       {.remedy = "let all ranks run the same version of hymn"});
  return packed;
}

std::string service_of(const Contact& contact) {
  return fmt::format("tcp to {}, {}, {}, {}", contact.to, contact.turn, contact.stream,
                     contact.attempt);
}

std::string service_of(const Contact& contact, std::uint64_t streams) {
  return fmt::format("{} of {}", service_of(contact), streams);
}

ProofSubject subject_of(Side side, const Contact& contact, const std::string& service) {
  return {.side = side,
          .service = service,
          .rank = contact.from,
          .server_nonce = contact.nonce_of_listener,
          .client_nonce = contact.nonce};
}

}  // namespace

Hello hello_of(const Token& token, const Contact& contact) {
  const std::string service = service_of(contact);
  return bytes_of<Hello>(
      PackedHello{.magic = greeting_magic,
                  .version = greeting_version,
                  .from = contact.from,
                  .to = contact.to,
                  .turn = contact.turn,
                  .stream = contact.stream,
                  .attempt = contact.attempt,
                  .nonce = contact.nonce,
                  .proof = prove(token, subject_of(Side::client, contact, service))});
}

Contact read_hello(std::span<const std::byte, hello_bytes> hello, const Token& token, int to,
                   const Nonce& nonce_of_listener) {
  const auto packed = read<PackedHello>(hello);
  const Contact contact{.from = packed.from,
                        .to = packed.to,
                        .turn = packed.turn,
                        .stream = packed.stream,
                        .attempt = packed.attempt,
                        .nonce_of_listener = nonce_of_listener,
                        .nonce = packed.nonce};
  const std::string service = service_of(contact);
  if (contact.to != to ||
      !is_proof(token, subject_of(Side::client, contact, service), packed.proof))
    throw NetworkError("who has connected does not know the token of this world");
  return contact;
}

Welcome welcome_of(const Token& token, const Contact& contact, std::uint64_t streams) {
  const std::string service = service_of(contact, streams);
  return bytes_of<Welcome>(
      PackedWelcome{.magic = greeting_magic,
                    .version = greeting_version,
                    .streams = streams,
                    .proof = prove(token, subject_of(Side::server, contact, service))});
}

std::uint64_t read_welcome(std::span<const std::byte, welcome_bytes> welcome, const Token& token,
                           const Contact& contact) {
  const auto packed = read<PackedWelcome>(welcome);
  const std::string service = service_of(contact, packed.streams);
  if (!is_proof(token, subject_of(Side::server, contact, service), packed.proof))
    throw NetworkError("who listens there does not know the token of this world");
  return packed.streams;
}

}  // namespace hymn::tcp
