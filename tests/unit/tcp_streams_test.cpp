// Several streams of a connection: large messages in parts, by whichever can be written to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <mutex>
#include <random>
#include <thread>

#include "base/sanitizers.hpp"
#include "tests/support/limit.hpp"
#include "tests/unit/tcp_scene.hpp"

namespace hymn::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

tcp::Limits with_streams(std::uint64_t streams) { return {.streams = streams}; }

/// A message of each rank of two to the other one, both at once.
class Swap {
 public:
  Swap(TcpScene& scene, std::size_t bytes, std::uint64_t seed) : scene_(scene) {
    for (int rank : {0, 1}) {
      Side& side = sides_[static_cast<std::size_t>(rank)];
      side.block = pattern(bytes, seed + static_cast<std::uint64_t>(rank));
      side.got = Block(bytes);
      side.out = scene.port(rank)->open();
      side.in = scene.port(rank)->open();
    }
    for (int rank : {0, 1}) {
      Side& side = sides_[static_cast<std::size_t>(rank)];
      side.out->send(1 - rank, user(1), sent(side.block));
      side.in->recv(1 - rank, user(1), room(side.got));
    }
  }
  bool is_done() {
    for (Side& side : sides_) {
      side.out_done = side.out_done || side.out->test();
      side.in_done = side.in_done || side.in->test();
    }
    return std::ranges::all_of(sides_, [](const Side& one) { return one.out_done && one.in_done; });
  }
  void expect_that_it_comes() {
    ASSERT_TRUE(scene_.until([this] { return is_done(); }));
    EXPECT_TRUE(sides_[0].got == sides_[1].block);
    EXPECT_TRUE(sides_[1].got == sides_[0].block);
  }

 private:
  struct Side {
    Block block{};
    Block got{};
    std::unique_ptr<Transfers> out{};
    std::unique_ptr<Transfers> in{};
    bool out_done = false;
    bool in_done = false;
  };
  TcpScene& scene_;
  std::array<Side, 2> sides_;
};

/// Sends what makes them until there are so many on both sides.
void expect_streams(TcpScene& scene, std::uint64_t count) {
  Swap(scene, 3 * megabyte, 1).expect_that_it_comes();
  EXPECT_TRUE(scene.until([&] {
    return scene.net(0).streams_to(1) == count && scene.net(1).streams_to(0) == count;
  })) << scene.net(0).streams_to(1)
      << " " << scene.net(1).streams_to(0);
}

class TcpStreams : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(TcpStreams, CarryMessagesOfAnyLengthBothWays) {
  TcpScene scene(2, with_streams(GetParam()));
  expect_streams(scene, GetParam());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, tcp::eager_limit + 1, tcp::part_limit - 1, tcp::part_limit,
        tcp::part_limit + 1, 2 * tcp::part_limit, 2 * tcp::part_limit + 1, 3 * megabyte + 7,
        8 * megabyte - 1}) {
    SCOPED_TRACE(bytes);
    Swap(scene, bytes, bytes).expect_that_it_comes();
  }
}

TEST_P(TcpStreams, CarryManyMessagesInTheirOrder) {
  TcpScene scene(2, with_streams(GetParam()));
  std::minstd_rand random(3);
  for (int round = 0; round < (sanitized ? 2 : 4); ++round) {
    std::array<std::vector<Block>, 2> blocks;
    std::array<std::vector<Block>, 2> got;
    std::vector<std::unique_ptr<Transfers>> all;
    for (std::size_t rank : {0u, 1u})
      for (int i = 0; i < 12; ++i) {
        const std::size_t bytes =
            random() % 3 == 0 ? random() % (4 * megabyte) : random() % 100'000;
        blocks[rank].push_back(pattern(bytes, random()));
        got[rank].emplace_back(bytes);
      }
    for (std::size_t rank : {0u, 1u}) {
      const int peer = rank == 0 ? 1 : 0;
      all.push_back(scene.port(static_cast<int>(rank))->open());
      for (const Block& block : blocks[rank]) all.back()->send(peer, user(1), sent(block));
      all.push_back(scene.port(peer)->open());
      for (Block& block : got[rank]) all.back()->recv(static_cast<int>(rank), user(1), room(block));
    }
    ASSERT_TRUE(scene.until(
        [&] { return std::erase_if(all, [](auto& one) { return one->test(); }), all.empty(); }));
    EXPECT_TRUE(got == blocks) << round;
  }
}

// The main one and the others, in the midst of messages: each time all are made again.
TEST_P(TcpStreams, NothingIsLostWhereOneOfThemIsCut) {
  TcpScene scene(2, with_streams(GetParam()));
  std::minstd_rand random(static_cast<unsigned>(GetParam()));
  for (int round = 0; round < (sanitized ? 6 : 15); ++round) {
    Swap swap(scene, megabyte + random() % (8 * megabyte), random());
    unsigned turns = 0;
    unsigned cuts = 0;
    ASSERT_TRUE(scene.until([&] {
      if (++turns < 400 && cuts < 4 && random() % 20 == 0) {
        const int cutter = static_cast<int>(random() % 2);
        scene.net(cutter).cut(1 - cutter, random() % GetParam());
        ++cuts;
      }
      return swap.is_done();
    })) << round;
    swap.expect_that_it_comes();
  }
  expect_streams(scene, GetParam());
}

// What is given up comes whole or not at all, and what is not given up comes.
TEST_P(TcpStreams, GiveUpInTheMidstOfAMessage) {
  TcpScene scene(2, with_streams(GetParam()));
  expect_streams(scene, GetParam());
  std::minstd_rand random(5);
  const auto move = [&] {
    for (auto turns = random() % 8; turns > 0; --turns)
      scene.net(static_cast<int>(random() % 2)).turn();
    if (random() % 20 == 0) scene.net(0).cut(1, random() % GetParam());
  };
  for (int round = 0; round < (sanitized ? 30 : 60); ++round) {
    SCOPED_TRACE(round);
    const Block block = pattern(random() % (4 * megabyte), random());
    Block scratch = block;
    auto out = scene.port(0)->open();
    out->send(1, user(100 + round), sent(scratch));
    move();
    if (random() % 2 == 0) {  // its message is for the one after it
      Block given_up(block.size());
      const auto in = scene.port(1)->open();
      in->recv(0, user(100 + round), room(given_up));
      move();
      in->abandon("a test");
      given_up.assign(given_up.size(), 0);
    }
    Block got(std::max<std::size_t>(block.size(), 10));
    const auto in = scene.port(1)->open();
    in->recv(0, user(100 + round), room(got));
    move();
    const bool gives_up = random() % 2 == 0 && !out->test();
    if (!gives_up) {
      ASSERT_TRUE(scene.until([&] { return in->test(); }));
      got.resize(in->status().count);
      ASSERT_TRUE(got == block);
      ASSERT_TRUE(scene.until([&] { return out->test(); }));
      continue;
    }
    const bool is_clean = out->abandon("a test") == nullptr;
    scratch.assign(scratch.size(), 0);
    const Block next = pattern(10, random());
    const auto after = scene.port(0)->open();
    after->send(1, user(100 + round), sent(next));
    try {
      ASSERT_TRUE(scene.until([&] { return in->test(); }));
      got.resize(in->status().count);
      ASSERT_TRUE(got == block || (is_clean && got == next)) << is_clean;
    } catch (const AbortedError&) {
      ASSERT_FALSE(is_clean);
    }
    scene.until([&] { return after->test(); });
  }
  Swap(scene, 3 * megabyte, 1).expect_that_it_comes();
}

// One thread moves both ends, of which ThreadSanitizer has little to say.
using Counts = std::vector<std::size_t>;
const Counts stream_counts = thread_sanitized ? Counts{1, 2}
                             : sanitized      ? Counts{1, 4}
                                              : Counts{1, 2, 4, 16};
INSTANTIATE_TEST_SUITE_P(Streams, TcpStreams, ::testing::ValuesIn(stream_counts),
                         ::testing::PrintToStringParamName());

/// Lowers what the second rank of a scene wants.
class MixedScene {
 public:
  MixedScene(std::uint64_t mine, std::uint64_t theirs) {
    const Token token = Token::random();
    for (const std::uint64_t streams : {mine, theirs}) {
      const int rank = static_cast<int>(nets_.size());
      nets_.push_back(
          make_shared_here<tcp::Net>(rank, 2, Logger(LogLevel::info, rank), with_streams(streams)));
      nets_.back()->set_token(token);
      nets_.back()->listen("127.0.0.1");
      nets_.back()->open(0);
    }
    for (int rank : {0, 1})
      net(rank).introduce(1 - rank, net(1 - rank).listens_at().value(), net(1 - rank).nonce());
  }
  tcp::Net& net(int rank) { return *nets_[static_cast<std::size_t>(rank)]; }
  const std::shared_ptr<tcp::Net>& shared(int rank) const {
    return nets_[static_cast<std::size_t>(rank)];
  }
  template <class Done>
  bool until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      for (const auto& net : nets_) net->turn();
    }
    return true;
  }
  void expect_that_a_message_comes(int from, std::size_t bytes) {
    const Block block = pattern(bytes, 1);
    Block got(bytes);
    const auto out = make_tcp_port(shared(from), 0, {0, 1})->open();
    const auto in = make_tcp_port(shared(1 - from), 0, {0, 1})->open();
    out->send(1 - from, user(1), sent(block));
    in->recv(from, user(1), room(got));
    EXPECT_TRUE(until([&] { return int{out->test()} + int{in->test()} == 2; }));
    EXPECT_TRUE(got == block);
  }

 private:
  std::vector<std::shared_ptr<tcp::Net>> nets_;
};

TEST(TcpStreamSet, TheLowerNumberOfTwoCounts) {
  for (const int maker : {0, 1}) {
    MixedScene scene(4, 2);
    scene.expect_that_a_message_comes(maker, 3 * megabyte);
    scene.expect_that_a_message_comes(1 - maker, 3 * megabyte);
    const auto has = [&](std::uint64_t count) {
      return scene.net(0).streams_to(1) == count && scene.net(1).streams_to(0) == count;
    };
    EXPECT_TRUE(scene.until([&] { return has(2); })) << maker;
    for (int i = 0; i < 3; ++i) scene.expect_that_a_message_comes(maker, 3 * megabyte);
    EXPECT_TRUE(has(2));
  }
}

// Whoever sends the first large one.
TEST(TcpStreamSet, IsMadeByWhoHasMadeTheConnection) {
  for (const int sender : {0, 1}) {
    MixedScene scene(3, 3);
    scene.expect_that_a_message_comes(0, 10);
    EXPECT_EQ(scene.net(0).streams_to(1), 1u) << "not before they are of use";
    scene.expect_that_a_message_comes(sender, 3 * megabyte);
    EXPECT_TRUE(scene.until([&] { return scene.net(1).streams_to(0) == 3; })) << sender;
  }
}

/// What is told while it lives.
class Told {
 public:
  Told() {
    before_ = set_log_sink([this](LogLevel level, int, std::string_view text) {
      if (level == LogLevel::info) texts_.emplace_back(text);
    });
  }
  ~Told() { set_log_sink(before_); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  LogSink before_;
  std::vector<std::string> texts_;
};

TEST(TcpStreamSet, IsDoneWithoutForWantOfDescriptors) {
  if (address_sanitized) GTEST_SKIP() << "a sanitizer needs descriptors to look at objects";
  const Told told;
  MixedScene scene(4, 4);
  scene.expect_that_a_message_comes(0, 10);
  {
    const Limit none(RLIMIT_NOFILE, 3);
    for (int i = 0; i < 2; ++i) scene.expect_that_a_message_comes(0, 3 * megabyte);
    EXPECT_EQ(scene.net(0).streams_to(1), 1u);
  }
  const auto tells = std::ranges::count_if(told.texts(), [](const std::string& text) {
    return text.find("is done without: cannot open a socket") != std::string::npos;
  });
  EXPECT_EQ(tells, 1);
  // They are made when there are some again, but it is not tried all the time.
  EXPECT_TRUE(scene.until([&] {
    scene.expect_that_a_message_comes(0, 3 * megabyte);
    return scene.net(1).streams_to(0) == 4;
  }));
}

/// Somebody who knows the token, and says what it likes.
class Knower {
 public:
  Knower(MixedScene& scene, const tcp::Hello& hello)
      : scene_(scene), socket_(tcp::begin_connect(scene.net(1).listens_at().value())) {
    EXPECT_EQ(::send(socket_.number(), hello.data(), hello.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(hello.size()));
  }
  void say(std::span<const std::byte> bytes) const {
    EXPECT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool is_refused() { return hears() <= 0; }
  bool is_welcome() { return hears() > 0; }
  /// What it says is passed over.
  bool is_over() const {
    std::array<std::byte, 1000> some;
    ssize_t count = 1;
    while (count > 0) count = ::recv(socket_.number(), some.data(), some.size(), MSG_DONTWAIT);
    return count == 0 || errno == ECONNRESET;
  }

 private:
  ssize_t hears() {
    std::byte byte{};
    ssize_t count = -1;
    EXPECT_TRUE(scene_.until([&] {
      count = ::recv(socket_.number(), &byte, 1, MSG_DONTWAIT);
      return count >= 0 || errno == ECONNRESET;
    }));
    return count;
  }
  MixedScene& scene_;
  Descriptor socket_;
};

/// By which who has made a stream says that it has been welcome.
tcp::Head confirmation() { return tcp::head_of({.kind = tcp::FrameKind::data}); }

TEST(TcpStreamSet, RefusesStrangersAndLeftovers) {
  const Token token = Token::random();
  MixedScene scene(4, 4);
  scene.net(1).set_token(token);
  std::uint64_t turn = 0;
  const auto hello = [&](std::uint32_t stream, std::uint32_t attempt = 1) {
    return tcp::Contact{.from = 0,
                        .to = 1,
                        .turn = turn,
                        .stream = stream,
                        .attempt = attempt,
                        .nonce_of_listener = scene.net(1).nonce(),
                        .nonce = random_nonce()};
  };
  turn = 5;
  EXPECT_TRUE(Knower(scene, tcp::hello_of(token, hello(1))).is_refused()) << "there is no main one";
  Knower main(scene, tcp::hello_of(token, hello(0)));
  EXPECT_TRUE(main.is_welcome());
  const tcp::Hello first = tcp::hello_of(token, hello(1));
  Knower stream(scene, first);
  EXPECT_TRUE(stream.is_welcome());
  stream.say(confirmation());
  EXPECT_TRUE(scene.until([&] { return scene.net(1).streams_to(0) == 2; }));
  EXPECT_TRUE(Knower(scene, tcp::hello_of(token, hello(1, 2))).is_refused()) << "it is there";
  EXPECT_TRUE(Knower(scene, first).is_refused()) << "it was overheard";
  EXPECT_TRUE(Knower(scene, tcp::hello_of(token, hello(4))).is_refused()) << "too many";
  EXPECT_TRUE(Knower(scene, tcp::hello_of(token, hello(99))).is_refused());
  EXPECT_TRUE(Knower(scene, tcp::hello_of(Token::random(), hello(2))).is_refused());
  tcp::Hello another = tcp::hello_of(token, hello(2));
  another[24] = std::byte{3};  // the number of a stream that it does not prove
  EXPECT_TRUE(Knower(scene, another).is_refused());
  for (const std::uint64_t other : {4u, 6u}) {
    turn = other;
    EXPECT_TRUE(Knower(scene, tcp::hello_of(token, hello(2))).is_refused()) << "of a leftover";
  }
  EXPECT_EQ(scene.net(1).streams_to(0), 2u) << "and nothing has changed";
}

// Before its maker has said that it was welcome.
TEST(TcpStreamSet, OneThatEndsEarlyHarmsNothing) {
  const Token token = Token::random();
  MixedScene scene(4, 4);
  scene.net(1).set_token(token);
  tcp::Contact contact{.from = 0,
                       .to = 1,
                       .turn = 1,
                       .nonce_of_listener = scene.net(1).nonce(),
                       .nonce = random_nonce()};
  Knower main(scene, tcp::hello_of(token, contact));
  EXPECT_TRUE(main.is_welcome());
  contact.stream = contact.attempt = 1;
  for (; contact.attempt < 3; ++contact.attempt)
    EXPECT_TRUE(Knower(scene, tcp::hello_of(token, contact)).is_welcome()) << contact.attempt;
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  scene.until([&] { return std::chrono::steady_clock::now() > later; });
  EXPECT_EQ(scene.net(1).streams_to(0), 1u);
  EXPECT_FALSE(main.is_over()) << "it was not lost by that";
  Knower another(scene, tcp::hello_of(token, contact));
  EXPECT_TRUE(another.is_welcome());
  another.say(confirmation());
  EXPECT_TRUE(scene.until([&] { return scene.net(1).streams_to(0) == 2; }));
  EXPECT_FALSE(main.is_over());
}

/// A rank that takes the main stream of another one at once, and others when it is told to.
class SlowListener {
 public:
  explicit SlowListener(const tcp::Limits& limits)
      : net_(make_shared_here<tcp::Net>(0, 2, Logger(LogLevel::off, 0), limits)) {
    net_->set_token(token_);
    net_->open(0);
    net_->introduce(1, tcp::Address::of(listener_.number()), nonce_);
  }
  tcp::Net& net() { return *net_; }
  std::unique_ptr<Transfers> open() { return make_tcp_port(net_, 0, {0, 1})->open(); }
  /// Who has connected.
  Descriptor accept() {
    Descriptor socket;
    int problem = 0;
    EXPECT_TRUE(until([&] {
      socket = tcp::accept_one(listener_.number(), problem);
      return static_cast<bool>(socket);
    }));
    return socket;
  }
  tcp::Contact welcome(const Descriptor& socket) {
    tcp::Hello hello;
    EXPECT_TRUE(until([&] {
      return ::recv(socket.number(), hello.data(), hello.size(), MSG_DONTWAIT | MSG_PEEK) ==
             static_cast<ssize_t>(hello.size());
    }));
    EXPECT_GT(::recv(socket.number(), hello.data(), hello.size(), 0), 0);
    const tcp::Contact contact = tcp::read_hello(hello, token_, 1, nonce_);
    say(socket, tcp::welcome_of(token_, contact, 2));
    return contact;
  }
  static void say(const Descriptor& socket, std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  template <class Done>
  bool until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      net_->turn();
    }
    return true;
  }
  /// The other end has closed it, at once or soon.
  bool comes_to_its_end(const Descriptor& socket) {
    std::array<std::byte, tcp::hello_bytes> some;
    return until([&] { return ::recv(socket.number(), some.data(), some.size(), 0) == 0; });
  }

 private:
  const Token token_ = Token::random();
  const Nonce nonce_ = random_nonce();
  Descriptor listener_ = tcp::listen_at(tcp::Address::parse("127.0.0.1", "0"));
  std::shared_ptr<tcp::Net> net_;
};

// It is tried again later, and taken.
TEST(TcpStreamSet, DoesNotWaitForEverForAWelcome) {
  constexpr tcp::Limits limits{.connecting = std::chrono::milliseconds(200), .streams = 2};
  SlowListener peer(limits);
  const Block block = pattern(3 * megabyte, 1);
  const auto out = peer.open();
  out->send(1, user(1), sent(block));
  const Descriptor main = peer.accept();
  peer.welcome(main);
  const auto grant = [&](std::uint64_t number) {
    peer.say(main, tcp::head_of({.kind = tcp::FrameKind::grant, .number = number}));
  };
  grant(1);
  const Descriptor silent = peer.accept();
  EXPECT_TRUE(peer.comes_to_its_end(silent));
  EXPECT_EQ(peer.net().trouble_with(1), "") << "the main one goes on";
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  out->send(1, user(1), sent(block));
  grant(2);
  const Descriptor again = peer.accept();
  EXPECT_GT(peer.welcome(again).attempt, 1u);
  EXPECT_TRUE(peer.until([&] { return peer.net().streams_to(1) == 2; }));
  out->abandon("a test");
}

// A receive that waits asks for the rest when the head of an announcement has come, whose own bytes
// a slow main stream may still have.
TEST(TcpStreamSet, APartMayOvertakeItsAnnouncement) {
  const Token token = Token::random();
  MixedScene scene(4, 4);
  scene.net(1).set_token(token);
  tcp::Contact contact{.from = 0,
                       .to = 1,
                       .turn = 5,
                       .nonce_of_listener = scene.net(1).nonce(),
                       .nonce = random_nonce()};
  Knower main(scene, tcp::hello_of(token, contact));
  EXPECT_TRUE(main.is_welcome());
  contact.stream = contact.attempt = 1;
  contact.nonce = random_nonce();
  Knower stream(scene, tcp::hello_of(token, contact));
  EXPECT_TRUE(stream.is_welcome());

  const std::size_t ahead = 4000;
  const std::size_t rest = tcp::part_limit;
  const Block block = pattern(ahead + rest, 3);
  const auto bytes = std::as_bytes(std::span(block));
  Block got(block.size());
  const auto in = make_tcp_port(scene.shared(1), 0, {0, 1})->open();
  in->recv(0, user(5), room(got));
  main.say(tcp::head_of({.kind = tcp::FrameKind::announce,
                         .tag = std::uint64_t{1} << 63 | 5,
                         .number = 1,
                         .value = block.size(),
                         .length = static_cast<std::uint32_t>(ahead)}));
  main.say(bytes.first(1000));
  stream.say(tcp::head_of({.kind = tcp::FrameKind::data,
                           .number = 1,
                           .value = ahead,
                           .length = static_cast<std::uint32_t>(rest)}));
  stream.say(bytes.subspan(ahead, rest));
  const auto moment = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  scene.until([&] { return std::chrono::steady_clock::now() > moment; });
  EXPECT_FALSE(in->test());
  EXPECT_EQ(scene.net(1).streams_to(0), 2u) << "nothing was lost";
  main.say(bytes.subspan(1000, ahead - 1000));
  EXPECT_TRUE(scene.until([&] { return in->test(); }));
  EXPECT_TRUE(got == block);
}

// A limit of descriptors that leaves no room for all of them.
TEST(TcpStreamSet, LeavesDescriptorsForOtherRanks) {
  const Limit few(RLIMIT_NOFILE, 64 + tcp::Net::most_strangers + 200);
  const auto net = make_shared_here<tcp::Net>(0, 100, Logger(LogLevel::off, 0), with_streams(16));
  EXPECT_EQ(net->streams_wanted(), 2u);
}

}  // namespace
}  // namespace hymn::test
