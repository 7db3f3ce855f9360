// How much is written at a time, and what may pass what.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "tests/unit/tcp_scene.hpp"

namespace hymn::test {
namespace {

/// Rank 0 of two, played by the test: it reads only when it is told to.
class Player {
 public:
  explicit Player(std::uint64_t streams = 1)
      : net_(make_shared_here<tcp::Net>(1, 2, Logger(LogLevel::off, 1),
                                        tcp::Limits{.streams = streams})) {
    net_->set_token(token_);
    net_->listen("127.0.0.1");
    net_->open(0);
  }
  static TimePoint a_moment_from_now() {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  }
  tcp::Net& net() { return *net_; }
  std::unique_ptr<Transfers> open() { return make_tcp_port(net_, 0, {0, 1})->open(); }
  /// Until all that net can do now is done.
  void turn() {
    const auto until = a_moment_from_now();
    while (std::chrono::steady_clock::now() < until) net_->turn();
  }
  /// It says the hello of the main stream, or of another one.
  void connect(std::uint32_t stream = 0) {
    sockets_.push_back(tcp::begin_connect(net_->listens_at().value()));
    const tcp::Contact contact{.from = 0,
                               .to = 1,
                               .turn = 1,
                               .stream = stream,
                               .attempt = stream == 0 ? 0u : 1u,
                               .nonce_of_listener = net_->nonce(),
                               .nonce = random_nonce()};
    say(tcp::hello_of(token_, contact), stream);
    turn();
  }
  void say(std::span<const std::byte> bytes, std::size_t stream = 0) {
    EXPECT_EQ(::send(sockets_[stream].number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// What has come by a stream.
  std::vector<std::byte> read(std::size_t stream = 0) {
    std::vector<std::byte> got(megabyte);
    const ssize_t count = ::recv(sockets_[stream].number(), got.data(), got.size(), MSG_DONTWAIT);
    got.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return got;
  }

 private:
  const Token token_ = Token::random();
  std::shared_ptr<tcp::Net> net_;
  std::deque<Descriptor> sockets_;
};

tcp::Head grant_of_first() {
  return tcp::head_of({.kind = tcp::FrameKind::grant, .number = 1, .value = tcp::part_limit});
}

/// Where in what has come a short message begins; unset: it has not.
std::optional<std::size_t> place_of_eager(std::span<const std::byte> all) {
  std::size_t place = tcp::welcome_bytes;
  while (place + tcp::head_bytes <= all.size()) {
    const tcp::Frame frame = tcp::read_head(all.subspan(place).first<tcp::head_bytes>());
    if (frame.kind == tcp::FrameKind::eager) return place;
    place += tcp::head_bytes + frame.length;
  }
  return std::nullopt;
}

// What the system has taken of a long message, and has not sent, is not much.
TEST(TcpFlow, AShortMessagePassesALongOne) {
  Player player;
  player.connect();
  const Block block = pattern(16 * megabyte, 1);
  const Block few = pattern(8, 2);
  const auto bulk = player.open();
  bulk->send(0, user(1), sent(block));
  player.turn();
  player.say(grant_of_first());
  player.turn();
  const auto late = player.open();
  late->send(0, user(2), sent(few));
  std::vector<std::byte> all;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!place_of_eager(all) && std::chrono::steady_clock::now() < end) {
    player.net().turn();
    const auto more = player.read();
    all.insert(all.end(), more.begin(), more.end());
  }
  ASSERT_TRUE(place_of_eager(all));
  EXPECT_LT(*place_of_eager(all), 3 * megabyte / 2);
  bulk->abandon("a test");
}

// Whatever many streams can take: other ranks wait meanwhile.
TEST(TcpFlow, OneEventWritesSoMuch) {
  constexpr std::uint32_t streams = 16;
  Player player(streams);
  player.connect();
  for (std::uint32_t stream = 1; stream < streams; ++stream) {
    player.connect(stream);
    player.say(tcp::head_of({.kind = tcp::FrameKind::data}), stream);
  }
  const Block block = pattern(32 * megabyte, 1);
  const auto bulk = player.open();
  bulk->send(0, user(1), sent(block));
  player.turn();
  ASSERT_EQ(player.net().streams_to(0), streams);
  const auto read_all = [&] {
    std::size_t bytes = 0;
    const auto until = Player::a_moment_from_now();
    while (std::chrono::steady_clock::now() < until)
      for (std::uint32_t stream = 0; stream < streams; ++stream)
        bytes += player.read(stream).size();
    return bytes;
  };
  read_all();
  player.say(grant_of_first());
  player.net().turn();
  EXPECT_LE(read_all(), 2 * megabyte);
  bulk->abandon("a test");
}

}  // namespace
}  // namespace hymn::test
