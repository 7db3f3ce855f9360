// Tokens, and the proofs that somebody knows one.
#include "control/token.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "control/handshake.hpp"
#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Tokens, AreAllDifferent) {
  EXPECT_EQ(Token(), Token());
  EXPECT_FALSE(Token::random() == Token::random());
  EXPECT_FALSE(Token::random() == Token());
}

TEST(Tokens, GoToTextAndBack) {
  const Token token = Token::random();
  EXPECT_EQ(token.text().size(), 64u);
  EXPECT_EQ(Token::parse(token.text()), token);
  const std::string text = "00ff" + std::string(58, 'a') + "1b";
  EXPECT_EQ(Token::parse(text).text(), text);
  EXPECT_EQ(Token::parse("00FF" + std::string(58, 'A') + "1B").text(), text);
}

TEST(Tokens, AreNotToldInErrors) {
  const std::string secret(64, 'g');
  for (const std::string& text :
       {secret, secret.substr(1), std::string(), "0x" + std::string(62, '1'),
        std::string(63, '1') + " ", "-1" + std::string(62, '1')}) {
    try {
      Token::parse(text);
      FAIL() << "'" << text << "' was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("token"));
      EXPECT_THAT(error.what(), Not(HasSubstr("ggg")));
    }
  }
}

// RFC 4231 gives no vector for this message; this one was computed with python's hmac module.
TEST(Proofs, AreHmacSha256OfAllThatTheySay) {
  const Token token = Token::parse(std::string(64, '1'));
  ProofSubject subject{.side = Side::client, .service = "link", .rank = 5};
  subject.server_nonce.fill(std::byte{2});
  subject.client_nonce.fill(std::byte{3});
  std::string hex;
  for (const std::byte byte : prove(token, subject)) {
    const auto value = std::to_integer<unsigned>(byte);
    hex += "0123456789abcdef"[value / 16];
    hex += "0123456789abcdef"[value % 16];
  }
  EXPECT_EQ(hex, "9654f4cbdcb4ae5fbe266b05e1e5bde08769a311e12a3d66c6a6f58b36ff8978");
}

TEST(Proofs, HoldForNothingElse) {
  const Token token = Token::random();
  const ProofSubject subject{.side = Side::client,
                             .service = "link",
                             .rank = 5,
                             .server_nonce = random_nonce(),
                             .client_nonce = random_nonce()};
  const Proof proof = prove(token, subject);
  EXPECT_TRUE(is_proof(token, subject, proof));
  EXPECT_FALSE(is_proof(Token::random(), subject, proof));
  EXPECT_FALSE(is_proof(token, subject, std::span(proof).first(31)));
  EXPECT_FALSE(is_proof(token, subject, {}));
  auto with = [&subject](auto change) {
    ProofSubject other = subject;
    change(other);
    return other;
  };
  for (const ProofSubject& other :
       {with([](auto& s) { s.side = Side::server; }), with([](auto& s) { s.service = "store"; }),
        with([](auto& s) { s.rank = 6; }), with([](auto& s) { s.server_nonce = random_nonce(); }),
        with([](auto& s) { s.client_nonce = random_nonce(); }),
        with([](auto& s) { std::swap(s.client_nonce, s.server_nonce); })})
    EXPECT_FALSE(is_proof(token, other, proof));
}

TEST(Handshake, ConvincesBothSides) {
  const Token token = Token::random();
  const ServerHandshake server(token, "link");
  ClientHandshake client(token, "link", 7);
  const Bytes hello = client.hello(server.challenge());
  const auto guest = server.accept(hello);
  EXPECT_EQ(guest.rank, 7);
  EXPECT_NO_THROW(client.check(guest.welcome));
  // The token is in none of the three.
  for (const Bytes& said : {server.challenge(), hello, guest.welcome})
    EXPECT_EQ(std::search(said.begin(), said.end(), token.bytes().begin(), token.bytes().end()),
              said.end());
}

TEST(Handshake, AnyChangedBitIsFoundOut) {
  const Token token = Token::random();
  const ServerHandshake server(token, "link");
  ClientHandshake client(token, "link", 7);
  const Bytes challenge = server.challenge();
  const Bytes hello = client.hello(challenge);
  for (std::size_t i = 0; i < hello.size(); ++i) {
    Bytes changed = hello;
    changed[i] ^= std::byte{1};
    EXPECT_THROW(server.accept(changed), NetworkError) << i;
    EXPECT_THROW(server.accept(std::span(hello).first(i)), NetworkError) << i;
  }
  const Bytes welcome = server.accept(hello).welcome;
  for (std::size_t i = 0; i < welcome.size(); ++i) {
    Bytes changed = welcome;
    changed[i] ^= std::byte{1};
    EXPECT_THROW(client.check(changed), NetworkError) << i;
    EXPECT_THROW(client.hello(std::span(challenge).first(i)), NetworkError) << i;
  }
  for (Bytes longer : {hello, welcome, challenge}) {
    longer.push_back(std::byte{0});
    EXPECT_THROW(server.accept(longer), NetworkError);
    EXPECT_THROW(client.check(longer), NetworkError);
    EXPECT_THROW(client.hello(longer), NetworkError);
  }
}

TEST(Handshake, FitsWhatStrangersMaySay) {
  const Token token = Token::random();
  const ServerHandshake server(token, "link");
  ClientHandshake client(token, "link", 7);
  EXPECT_LE(client.hello(server.challenge()).size(), 256u);
}

}  // namespace
}  // namespace hymn::test
