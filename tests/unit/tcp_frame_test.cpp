// What is said on connections of hymn's own, and what is not taken for it.
#include "p2p/tcp/tcp_frame.hpp"

#include <gtest/gtest.h>

#include <random>

#include "hymn/error.hpp"
#include "p2p/tcp/tcp_greeting.hpp"

namespace hymn::test {
namespace {

using tcp::Frame;
using tcp::FrameKind;

Frame some_frame() {
  return {.kind = FrameKind::eager,
          .group = 0x123456789abcdefu,
          .tag = ~std::uint64_t{0},
          .number = 77,
          .value = 0,
          .length = tcp::eager_limit};
}

TEST(TcpFrame, IsReadAsItWasWritten) {
  for (const FrameKind kind :
       {FrameKind::eager, FrameKind::announce, FrameKind::cancel, FrameKind::ask, FrameKind::data,
        FrameKind::grant, FrameKind::finished, FrameKind::ack}) {
    const bool has_bytes =
        kind == FrameKind::eager || kind == FrameKind::announce || kind == FrameKind::data;
    const Frame frame{.kind = kind,
                      .group = 1,
                      .tag = 2,
                      .number = 3,
                      .value = ~std::uint64_t{4},
                      .length = has_bytes ? 5u : 0u};
    EXPECT_EQ(tcp::read_head(tcp::head_of(frame)), frame);
  }
}

TEST(TcpFrame, EveryDamagedBitIsFound) {
  for (std::size_t bit = 0; bit < 8 * tcp::head_bytes; ++bit) {
    tcp::Head head = tcp::head_of(some_frame());
    head[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(tcp::read_head(head), NetworkError) << bit;
  }
}

TEST(TcpFrame, NoiseIsNone) {
  std::minstd_rand random(5);
  for (int i = 0; i < 100'000; ++i) {
    tcp::Head head = tcp::head_of(some_frame());
    const std::size_t damaged = 1 + random() % head.size();
    const tcp::Head before = head;
    for (std::size_t at = head.size() - damaged; at < head.size(); ++at)
      head[at] = std::byte(random());
    if (head == before) continue;
    EXPECT_THROW(tcp::read_head(head), NetworkError);
  }
}

TEST(TcpFrame, LengthsHaveLimits) {
  Frame frame = some_frame();
  frame.length += 1;
  EXPECT_THROW(tcp::read_head(tcp::head_of(frame)), NetworkError);
  for (const FrameKind kind : {FrameKind::announce, FrameKind::data}) {
    frame = {.kind = kind, .length = tcp::part_limit + 1};
    EXPECT_THROW(tcp::read_head(tcp::head_of(frame)), NetworkError);
  }
  frame = {.kind = FrameKind::ack, .length = 1};
  EXPECT_THROW(tcp::read_head(tcp::head_of(frame)), NetworkError);
}

// What nobody has received fits into the window, and half of that is for short messages.
TEST(TcpFrame, AsMuchGoesAheadAsThereIsRoomFor) {
  EXPECT_EQ(tcp::bytes_ahead(100, 0), 100u);
  EXPECT_EQ(tcp::bytes_ahead(std::uint64_t{1} << 40, 0), tcp::part_limit);
  std::uint64_t spent = 0;
  for (std::uint64_t ahead = 1; ahead != 0; spent += ahead == 0 ? 0 : tcp::eager_cost(ahead))
    ahead = tcp::bytes_ahead(100'000, spent);
  EXPECT_LE(spent, tcp::eager_window / 2);
  EXPECT_GT(spent, tcp::eager_window / 2 - 5000);
  EXPECT_EQ(tcp::bytes_ahead(100'000, tcp::eager_window), 0u);
}

class TcpGreeting : public ::testing::Test {
 protected:
  Token token = Token::random();
  tcp::Contact contact{
      .from = 3, .to = 5, .turn = 2, .nonce_of_listener = random_nonce(), .nonce = random_nonce()};
};

TEST_F(TcpGreeting, BothProveThatTheyKnowTheToken) {
  const tcp::Contact heard =
      tcp::read_hello(tcp::hello_of(token, contact), token, 5, contact.nonce_of_listener);
  EXPECT_EQ(heard.from, 3);
  EXPECT_EQ(heard.turn, 2u);
  EXPECT_NO_THROW(tcp::read_welcome(tcp::welcome_of(token, heard, 3), token, contact));
}

TEST_F(TcpGreeting, AnotherTokenListenerOrNonceIsRefused) {
  const tcp::Hello hello = tcp::hello_of(token, contact);
  const Token other = Token::random();
  EXPECT_THROW(tcp::read_hello(hello, other, 5, contact.nonce_of_listener), NetworkError);
  EXPECT_THROW(tcp::read_hello(hello, token, 4, contact.nonce_of_listener), NetworkError);
  EXPECT_THROW(tcp::read_hello(hello, token, 5, random_nonce()), NetworkError);
  EXPECT_THROW(tcp::read_welcome(tcp::welcome_of(other, contact, 3), token, contact), NetworkError);
  tcp::Contact later = contact;
  later.turn += 1;
  EXPECT_THROW(tcp::read_welcome(tcp::welcome_of(token, later, 3), token, contact), NetworkError);
}

TEST_F(TcpGreeting, EveryDamagedByteIsRefused) {
  for (std::size_t at = 0; at < tcp::hello_bytes; ++at) {
    tcp::Hello hello = tcp::hello_of(token, contact);
    hello[at] ^= std::byte{64};
    EXPECT_THROW(tcp::read_hello(hello, token, 5, contact.nonce_of_listener), NetworkError) << at;
  }
  for (std::size_t at = 0; at < tcp::welcome_bytes; ++at) {
    tcp::Welcome welcome = tcp::welcome_of(token, contact, 3);
    welcome[at] ^= std::byte{1};
    EXPECT_THROW(tcp::read_welcome(welcome, token, contact), NetworkError) << at;
  }
}

}  // namespace
}  // namespace hymn::test
