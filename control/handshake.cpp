#include "control/handshake.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr const char* same_token = "give all ranks of the job the same token";

Nonce read_nonce(Unpacker& from) {
  const Bytes bytes = from.bytes();
  Nonce nonce{};
  if (bytes.size() != nonce.size())
    throw NetworkError("a handshake message has a nonce of the wrong length");
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

void expect_handshake_end(const Unpacker& from) {
  if (!from.empty()) throw NetworkError("a handshake message has extra bytes at its end");
}

}  // namespace

ServerHandshake::ServerHandshake(const Token& token, std::string service)
    : token_(token), service_(std::move(service)), nonce_(random_nonce()) {}

Bytes ServerHandshake::challenge() const { return Packer().bytes(nonce_).packed(); }

ServerHandshake::Guest ServerHandshake::accept(std::span<const std::byte> hello) const {
  Unpacker from(hello);
  const auto rank = static_cast<std::int64_t>(from.number());
  if (rank < -1 || rank > std::numeric_limits<int>::max())
    throw NetworkError("a handshake message names an impossible rank");
  ProofSubject subject{.side = Side::client,
                       .service = service_,
                       .rank = static_cast<int>(rank),
                       .server_nonce = nonce_,
                       .client_nonce = read_nonce(from)};
  const Bytes proof = from.bytes();
  expect_handshake_end(from);
  if (!is_proof(token_, subject, proof))
    throw NetworkError("the client does not know the token", {.remedy = same_token});
  subject.side = Side::server;
  return {.rank = subject.rank, .welcome = Packer().bytes(prove(token_, subject)).packed()};
}

ClientHandshake::ClientHandshake(const Token& token, std::string service, int rank)
    : token_(token), service_(std::move(service)), rank_(rank), nonce_(random_nonce()) {}

Bytes ClientHandshake::hello(std::span<const std::byte> challenge) {
  Unpacker from(challenge);
  server_nonce_ = read_nonce(from);
  expect_handshake_end(from);
  const Proof proof = prove(token_, {.side = Side::client,
                                     .service = service_,
                                     .rank = rank_,
                                     .server_nonce = server_nonce_,
                                     .client_nonce = nonce_});
  return Packer()
      .number(static_cast<std::uint64_t>(std::int64_t{rank_}))
      .bytes(nonce_)
      .bytes(proof)
      .packed();
}

void ClientHandshake::check(std::span<const std::byte> welcome) const {
  if (welcome.empty())
    throw NetworkError("the server refuses this client: its token, its rank, or one more of them",
                       {.remedy = same_token});
  Unpacker from(welcome);
  const Bytes proof = from.bytes();
  expect_handshake_end(from);
  if (!is_proof(token_,
                {.side = Side::server,
                 .service = service_,
                 .rank = rank_,
                 .server_nonce = server_nonce_,
                 .client_nonce = nonce_},
                proof))
    throw NetworkError("the server does not know the token", {.remedy = same_token});
}

}  // namespace hymn
