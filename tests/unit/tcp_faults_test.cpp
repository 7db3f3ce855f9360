// Connections that are cut, refused, damaged, or a stranger's.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "base/sanitizers.hpp"
#include "tests/support/limit.hpp"
#include "tests/unit/tcp_scene.hpp"

namespace hymn::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr tcp::Limits short_limits{.handshake = std::chrono::milliseconds(100),
                                   .connecting = std::chrono::milliseconds(200),
                                   .patience = std::chrono::milliseconds(300)};

/// A message between the first two works.
void expect_working(TcpScene& scene, std::uint64_t group = 0) {
  const Block block = pattern(70'000, 1);
  Block got(block.size());
  const auto out = scene.port(0, group)->open();
  const auto in = scene.port(1, group)->open();
  out->send(1, user(99), sent(block));
  in->recv(0, user(99), room(got));
  EXPECT_TRUE(scene.until([&] { return int{out->test()} + int{in->test()} == 2; }));
  EXPECT_EQ(got, block);
}

/// Somebody who connects to a rank.
class Stranger {
 public:
  explicit Stranger(tcp::Net& net) : socket_(tcp::begin_connect(net.listens_at().value())) {}
  void say(std::span<const std::byte> bytes) const {
    EXPECT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// -1: nothing so far; 0: it is over.
  int heard() const {
    std::byte byte{};
    return static_cast<int>(::recv(socket_.number(), &byte, 1, MSG_DONTWAIT));
  }
  bool is_over() const {
    const int count = heard();
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

 private:
  Descriptor socket_;
};

// Again and again, in the midst of everything: nothing is lost, nothing comes twice, all in order.
TEST(TcpFaults, ACutLinkHeals) {
  TcpScene scene(2);
  const auto mine = scene.port(0);
  const auto theirs = scene.port(1);
  std::minstd_rand random(17);
  for (int round = 0; round < (sanitized ? 10 : 40); ++round) {
    std::vector<Block> blocks;
    std::vector<Block> got;
    const auto out = mine->open();
    const auto in = theirs->open();
    for (unsigned i = 0; i < 12; ++i) {
      const std::size_t size = random() % 3 == 0 ? random() % 3'000'000 : random() % 160'000;
      blocks.push_back(pattern(size, random()));
      got.emplace_back(size);
    }
    for (const Block& block : blocks) out->send(1, user(1), sent(block));
    for (Block& block : got) in->recv(0, user(1), room(block));
    unsigned turns = 0;
    bool out_done = false;
    bool in_done = false;
    ASSERT_TRUE(scene.until([&] {
      if (++turns < 400 && random() % 40 == 0)
        scene.net(static_cast<int>(random() % 2)).cut(1 - static_cast<int>(random() % 2));
      out_done = out_done || out->test();
      in_done = in_done || in->test();
      return out_done && in_done;
    })) << round;
    for (std::size_t i = 0; i < blocks.size(); ++i) ASSERT_EQ(got[i], blocks[i]) << round;
  }
  expect_working(scene, 5);
}

// In the midst of announcements, too: what was given up comes whole or not at all, and what was not
// given up comes.
TEST(TcpFaults, ACutLinkHarmsNothingThatIsGivenUp) {
  TcpScene scene(2);
  const auto mine = scene.port(0);
  const auto theirs = scene.port(1);
  std::minstd_rand random(19);
  const auto move = [&] {
    for (auto turns = random() % 6; turns > 0; --turns) {
      scene.net(static_cast<int>(random() % 2)).turn();
      if (random() % 8 == 0)
        scene.net(static_cast<int>(random() % 2)).cut(1 - static_cast<int>(random() % 2));
    }
  };
  for (int round = 0; round < (sanitized ? 100 : 300); ++round) {
    const Block block = pattern(random() % (3 * tcp::part_limit), random());
    const Block next = pattern(1 + random() % 200'000, random());
    Block scratch = block;
    auto out = mine->open();
    out->send(1, user(round), sent(scratch));
    move();
    if (random() % 2 == 0) {  // its message is for the one after it
      Block given_up(std::max(block.size(), next.size()));
      const auto in = theirs->open();
      in->recv(0, user(round), room(given_up));
      move();
      in->abandon("a test");
    }
    const bool gives_up = random() % 2 == 0 && !out->test();
    if (gives_up) {
      if (out->abandon("a test") != nullptr) continue;  // a part is there, and no more comes
      scratch.assign(scratch.size(), 0);
      out = mine->open();
      out->send(1, user(round), sent(next));
    }
    Block got(std::max(block.size(), next.size()));
    const auto in = theirs->open();
    in->recv(0, user(round), room(got));
    move();
    ASSERT_TRUE(scene.until([&] { return in->test(); })) << round;
    got.resize(in->status().count);
    if (!gives_up) {
      ASSERT_EQ(got, block) << round;
      ASSERT_TRUE(scene.until([&] { return out->test(); })) << round;
    } else if (got != block) {
      ASSERT_EQ(got, next) << round;
    }
  }
  expect_working(scene, 5);
}

// Who waits for it must not take the sender for gone, however long it has nothing to say.
TEST(TcpFaults, ALinkThatIsCutWhileNothingIsSaidHeals) {
  constexpr tcp::Limits limits{.patience = std::chrono::seconds(2)};
  TcpScene scene(2, limits);
  constexpr int acknowledged = 64;
  for (int i = 0; i < acknowledged; ++i) expect_working(scene);
  const Block block = pattern(1000, 3);
  Block got(block.size());
  const auto in = scene.port(1)->open();
  in->recv(0, user(1), room(got));
  scene.net(0).cut(1);
  EXPECT_FALSE(scene.within(limits.patience * 3 / 2, [&] { return in->test(); }));
  const auto out = scene.port(0)->open();
  out->send(1, user(1), sent(block));
  ASSERT_TRUE(scene.until([&] { return out->test() && in->test(); }));
  EXPECT_EQ(got, block);
}

TEST(TcpFaults, WhoIsGoneIsNamed) {
  TcpScene scene(2, short_limits);
  expect_working(scene);
  scene.net(1).shut_down(std::chrono::seconds(1));
  const Block block = pattern(300'000, 1);
  Block got(10);
  const auto out = scene.port(0)->open();
  out->send(1, user(1), sent(block));
  const auto is_told = [&] {
    return scene.net(0).trouble_with(1).starts_with("no connection to rank 1 at 127.0.0.1:");
  };
  EXPECT_TRUE(scene.until(is_told));
  try {
    scene.until([&] { return out->test(); });
    FAIL() << "nothing is thrown";
  } catch (const NetworkError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 at 127.0.0.1:"));
    EXPECT_THAT(error.what(), HasSubstr("HYMN_INTERFACE"));
    EXPECT_THAT(error.context().missing, ElementsAre(1));
  }
  // From now on at once.
  const auto more = scene.port(0)->open();
  more->send(1, user(1), sent(got));
  EXPECT_THROW(more->test(), NetworkError);
}

TEST(TcpFaults, AReceiveFromWhoIsGoneFails) {
  TcpScene scene(2, short_limits);
  expect_working(scene);
  Block got(10);
  const auto in = scene.port(1)->open();
  in->recv(0, user(1), room(got));
  EXPECT_FALSE(in->test());
  EXPECT_EQ(scene.net(1).trouble_with(0), "");
  scene.net(0).shut_down(std::chrono::seconds(1));
  scene.until([&] { return !scene.net(1).trouble_with(0).empty(); });
  EXPECT_THAT(scene.net(1).trouble_with(0), HasSubstr("no connection to rank 0 at 127.0.0.1:"));
  try {
    scene.until([&] { return in->test(); });
    FAIL() << "nothing is thrown";
  } catch (const NetworkError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no connection to rank 0 at 127.0.0.1:"));
    EXPECT_THAT(error.context().missing, ElementsAre(0));
  }
}

// Nobody makes a connection any more, or says again what was lost with the last one.
TEST(TcpFaults, WhoIsDeadIsNotWaitedForLong) {
  TcpScene scene(3);
  expect_working(scene);
  Block got(10);
  for (const int from : {0, 2}) {  // to the last there was no connection yet
    SCOPED_TRACE(from);
    const auto in = scene.port(1)->open();
    in->recv(from, user(1), room(got));
    EXPECT_FALSE(in->test());
    scene.net(from).shut_down(std::chrono::seconds(1));
    ASSERT_TRUE(
        scene.until([&] { return ::testing::Matches(Contains(from))(scene.net(1).away()); }));
    scene.net(1).note_dead(from);
    EXPECT_THAT(scene.net(1).away(), Not(Contains(from)));
    EXPECT_THROW(scene.within(std::chrono::seconds(5), [&] { return in->test(); }), NetworkError);
  }
}

TEST(TcpFaults, TheLastWordsOfWhoIsDeadAreHeard) {
  TcpScene scene(2);
  expect_working(scene);
  const Block block = pattern(50'000, 1);
  const auto out = scene.port(0)->open();
  out->send(1, user(1), sent(block));
  scene.net(0).shut_down(std::chrono::milliseconds(10));
  scene.net(1).note_dead(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  Block got(block.size());
  const auto in = scene.port(1)->open();
  in->recv(0, user(1), room(got));
  ASSERT_TRUE(scene.until([&] { return in->test(); }));
  EXPECT_EQ(got, block);
}

// So that one that is cut again and again gets on.
TEST(TcpFaults, WhoHasLostAConnectionIsToLookAgainSoon) {
  TcpScene scene(2);
  expect_working(scene);
  EXPECT_FALSE(scene.net(1).is_troubled());
  scene.net(0).cut(1);
  EXPECT_TRUE(scene.until([&] { return scene.net(1).is_troubled(); }));
  expect_working(scene);
  EXPECT_TRUE(scene.net(1).is_troubled()) << "for a while";
  EXPECT_TRUE(scene.until([&] { return !scene.net(1).is_troubled(); }));
}

// However often it is tried to send to it.
TEST(TcpFaults, AReceiveFromWhoIsGoneFailsAlsoWhereSendsAreTriedAgain) {
  TcpScene scene(2, short_limits);
  expect_working(scene);
  scene.net(1).shut_down(std::chrono::seconds(1));
  const Block block = pattern(10, 1);
  const Block long_block = pattern(300'000, 1);
  const auto out = scene.port(0)->open();
  out->send(1, user(1), sent(long_block));
  EXPECT_THROW(scene.until([&] { return out->test(); }), NetworkError);
  Block got(10);
  const auto in = scene.port(0)->open();
  in->recv(1, user(1), room(got));
  const auto again = scene.port(0)->open();
  again->send(1, user(1), sent(block));
  EXPECT_THROW(in->test(), NetworkError);
}

// It does not answer, and loses one connection after another by that.
TEST(TcpFaults, WhoIsOnlyBusyIsNotGone) {
  TcpScene scene(2, short_limits);
  expect_working(scene);
  Block got(70'000);
  const auto in = scene.port(0)->open();
  in->recv(1, user(1), room(got));
  const auto wait = [&](Duration time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) EXPECT_FALSE(in->test());
  };
  for (int connections = 0; connections < 3; ++connections) {
    scene.net(0).cut(1);
    wait(short_limits.patience * 4 / 3);
  }
  const Block block = pattern(got.size(), 1);
  const auto out = scene.port(1)->open();
  out->send(0, user(1), sent(block));
  ASSERT_TRUE(scene.until([&] { return int{out->test()} + int{in->test()} == 2; }));
  EXPECT_EQ(got, block);
}

// One side has given the other up, which still can connect to it: neither waits for ever.
TEST(TcpFaults, WhoHasBeenGivenUpIsTold) {
  TcpScene scene(2, short_limits, "127.0.0.1", false);
  const auto nobody = [] {
    const Descriptor listener = tcp::listen_at(tcp::Address::parse("127.0.0.1", "0"));
    return tcp::Address::of(listener.number());
  }();
  scene.introduce(1, 0);
  scene.net(0).introduce(1, nobody, scene.net(1).nonce());
  const Block block = pattern(300'000, 1);
  const auto first = scene.port(1)->open();
  first->send(0, user(1), sent(block));
  Block got(block.size());
  auto in = scene.port(0)->open();
  in->recv(1, user(1), room(got));
  ASSERT_TRUE(scene.until([&] { return int{first->test()} + int{in->test()} == 2; }));
  scene.net(0).cut(1);
  const auto out = scene.port(0)->open();
  out->send(1, user(1), sent(block));
  EXPECT_THROW(while (!out->test()){}, NetworkError);
  in = scene.port(1)->open();
  in->recv(0, user(1), room(got));
  EXPECT_THROW(scene.until([&] { return in->test(); }), NetworkError);
}

// They are its parent's, which goes on with them; and when the parent ends, the others see it.
TEST(TcpFaults, AChildLeavesThemAlone) {
  TcpScene scene(2, short_limits);
  expect_working(scene);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  expect_working(scene, 2);
  Block got(10);
  const auto in = scene.port(1)->open();
  in->recv(0, user(1), room(got));
  EXPECT_FALSE(in->test());
  scene.net(0).shut_down(std::chrono::seconds(1));
  EXPECT_THROW(scene.until([&] { return in->test(); }), NetworkError);
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

TEST(TcpFaults, StrangersCostLittleAndHearNothing) {
  constexpr int many = 1000;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 2 * many) GTEST_SKIP() << "there are not so many descriptors (ulimit -Hn)";
  const Limit enough(RLIMIT_NOFILE, std::max<rlim_t>(files.rlim_cur, 2 * many));
  TcpScene scene(2, short_limits);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < many; ++i) {
    strangers.push_back(std::make_unique<Stranger>(scene.net(1)));
    scene.net(1).turn();
  }
  scene.within(std::chrono::milliseconds(50), [] { return false; });
  EXPECT_LE(scene.net(1).strangers(), tcp::Net::most_strangers + 2);
  expect_working(scene);
  EXPECT_TRUE(scene.until([&] { return scene.net(1).strangers() == 0; })) << "time is up for them";
  for (const auto& stranger : strangers) EXPECT_TRUE(stranger->is_over());
}

TEST(TcpFaults, WhoDoesNotKnowTheTokenIsRefused) {
  TcpScene scene(2);
  tcp::Contact contact{.from = 0, .to = 1, .turn = 1, .nonce = random_nonce()};
  contact.nonce_of_listener = scene.net(1).nonce();
  const Stranger stranger(scene.net(1));
  ASSERT_TRUE(scene.until([&] { return scene.net(1).strangers() == 1; }));
  stranger.say(tcp::hello_of(Token::random(), contact));
  EXPECT_TRUE(scene.until([&] { return stranger.is_over(); }));
  expect_working(scene);
}

TEST(TcpFaults, NoiseEndsAConnectionAndNothingElse) {
  TcpScene scene(2);
  std::minstd_rand random(3);
  for (int i = 0; i < 10; ++i) {
    const Stranger stranger(scene.net(1));
    ASSERT_TRUE(scene.until([&] { return scene.net(1).strangers() == 1; }));
    std::vector<std::byte> noise(88 + random() % 100);
    for (std::byte& byte : noise) byte = std::byte(random());
    stranger.say(noise);
    ASSERT_TRUE(scene.until([&] { return stranger.is_over(); }));
  }
  expect_working(scene);
}

/// Who knows the token, but says what nobody says.
TEST(TcpFaults, DamagedFramesEndTheConnectionOfTheirSenderOnly) {
  const Token token = Token::random();
  auto net = make_shared_here<tcp::Net>(1, 3, Logger(LogLevel::off, 1));
  net->set_token(token);
  net->listen("127.0.0.1");
  net->open(0);
  std::minstd_rand random(3);
  for (std::uint64_t turn = 1; turn < 200; ++turn) {
    const tcp::Contact contact{.from = 0,
                               .to = 1,
                               .turn = turn,
                               .nonce_of_listener = net->nonce(),
                               .nonce = random_nonce()};
    const Stranger known(*net);
    known.say(tcp::hello_of(token, contact));
    const auto kind = static_cast<tcp::FrameKind>(1 + random() % 8);
    const bool has_bytes = kind == tcp::FrameKind::eager || kind == tcp::FrameKind::announce ||
                           kind == tcp::FrameKind::data;
    tcp::Head head = tcp::head_of({.kind = kind,
                                   .group = random() % 3,
                                   .tag = random(),
                                   .number = 1000 + random(),
                                   .value = random(),
                                   .length = has_bytes ? 1000u : 0u});
    if (random() % 2 == 0) head[random() % head.size()] ^= std::byte{16};
    known.say(head);
    if (kind == tcp::FrameKind::data) known.say(head);  // a part of nothing is passed over
    std::vector<std::byte> noise(2000, std::byte{7});
    known.say(noise);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    bool over = false;
    while (!over && std::chrono::steady_clock::now() < end) {
      net->turn();
      while (known.heard() > 0) {
      }
      over = known.is_over();
    }
    ASSERT_TRUE(over) << turn;
  }
}

/// What a rank that knows the token says on its connections to a net, one after the other.
class KnownSender {
 public:
  KnownSender() {
    net_->set_token(token_);
    net_->listen("127.0.0.1");
    net_->open(0);
  }
  /// On a new connection. Whether it is still there after that.
  bool says(const tcp::Frame& frame, std::size_t bytes) {
    const tcp::Contact contact{.from = 0,
                               .to = 1,
                               .turn = ++turn_,
                               .nonce_of_listener = net_->nonce(),
                               .nonce = random_nonce()};
    last_ = std::make_unique<Stranger>(*net_);
    last_->say(tcp::hello_of(token_, contact));
    last_->say(tcp::head_of(frame));
    last_->say(std::vector<std::byte>(bytes, std::byte{7}));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < end) {
      net_->turn();
      while (last_->heard() > 0) {
      }
      if (last_->is_over()) return false;
    }
    return true;
  }
  const std::shared_ptr<tcp::Net>& net() const { return net_; }

 private:
  const Token token_ = Token::random();
  std::shared_ptr<tcp::Net> net_ =
      make_shared_here<tcp::Net>(1, 2, Logger(LogLevel::off, 1), tcp::Limits{});
  std::unique_ptr<Stranger> last_;
  std::uint64_t turn_ = 0;
};

TEST(TcpFaults, AnAnnouncementHasNoMoreBytesThanItsMessage) {
  KnownSender sender;
  EXPECT_FALSE(sender.says(
      {.kind = tcp::FrameKind::announce, .number = 1, .value = 999, .length = 1000}, 1000));
}

TEST(TcpFaults, AnAnnouncementThatIsSaidAgainIsTheSame) {
  const tcp::Frame announce{
      .kind = tcp::FrameKind::announce, .tag = 5, .number = 1, .value = 5000, .length = 4000};
  for (int difference = 0; difference < 5; ++difference) {
    SCOPED_TRACE(difference);
    KnownSender sender;
    EXPECT_TRUE(sender.says(announce, 1000)) << "a part of it";
    tcp::Frame again = announce;
    if (difference == 1) again.value = 5001;
    if (difference == 2) again.length = 4001;
    if (difference == 3) again.tag = 6;
    if (difference == 4) again.kind = tcp::FrameKind::eager;
    EXPECT_EQ(sender.says(again, again.length), difference == 0);
  }
}

TEST(TcpFaults, NoPartComesBeforeItsAnnouncementHasComeToItsEnd) {
  KnownSender sender;
  Block got(5000);
  const auto in = make_tcp_port(sender.net(), 0, {0, 1})->open();
  in->recv(0, user(5), room(got));
  const std::uint64_t tag = std::uint64_t{1} << 63 | 5;
  EXPECT_TRUE(sender.says(
      {.kind = tcp::FrameKind::announce, .tag = tag, .number = 1, .value = 5000, .length = 4000},
      1000));
  EXPECT_FALSE(sender.says(
      {.kind = tcp::FrameKind::data, .number = 1, .value = 1000, .length = 4000}, 4000));
}

// However often it is lost before the other end has said what has come.
TEST(TcpFaults, EachConnectionIsToldTheSame) {
  const Token token = Token::random();
  auto net = make_shared_here<tcp::Net>(1, 2, Logger(LogLevel::off, 1));
  net->set_token(token);
  net->listen("127.0.0.1");
  net->open(0);
  const Block block = pattern(70'000, 1);
  const auto out = make_tcp_port(net, 0, {0, 1})->open();
  out->send(0, user(1), sent(block));
  std::vector<int> heard;
  for (std::uint64_t turn = 1; turn < 8; ++turn) {
    const Stranger known(*net);
    known.say(tcp::hello_of(token, {.from = 0,
                                    .to = 1,
                                    .turn = turn,
                                    .nonce_of_listener = net->nonce(),
                                    .nonce = random_nonce()}));
    int& bytes = heard.emplace_back(0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < end) {
      net->turn();
      while (known.heard() > 0) ++bytes;
    }
  }
  EXPECT_GT(heard[1], 70'000);
  EXPECT_THAT(std::span(heard).subspan(1), ::testing::Each(heard[1]));
  out->abandon("a test");
}

TEST(TcpFaults, AHelloIsTakenOnce) {
  const Token token = Token::random();
  auto net = make_shared_here<tcp::Net>(1, 2, Logger(LogLevel::off, 1));
  net->set_token(token);
  net->listen("127.0.0.1");
  const tcp::Contact contact{
      .from = 0, .to = 1, .turn = 1, .nonce_of_listener = net->nonce(), .nonce = random_nonce()};
  const tcp::Hello hello = tcp::hello_of(token, contact);
  const auto until = [&](auto done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < end) net->turn();
    return done();
  };
  const Stranger first(*net);
  first.say(hello);
  EXPECT_TRUE(until([&] { return first.heard() > 0; })) << "it is welcome";
  const Stranger second(*net);
  second.say(hello);
  EXPECT_TRUE(until([&] { return second.is_over(); }));
  EXPECT_FALSE(first.is_over());
}

TEST(TcpFaults, AListenerThatIsAStrangerIsNotTrusted) {
  TcpScene scene(2, short_limits);
  auto net = make_shared_here<tcp::Net>(0, 2, Logger(LogLevel::off, 0), short_limits);
  net->set_token(Token::random());
  net->listen("127.0.0.1");
  net->introduce(1, scene.net(1).listens_at().value(), scene.net(1).nonce());
  net->open(0);
  const auto out = make_tcp_port(net, 0, {0, 1})->open();
  const Block block = pattern(300'000, 1);
  out->send(1, user(1), sent(block));
  EXPECT_THROW(scene.until([&] { return out->test(); }), NetworkError);
}

TEST(TcpFaults, WantOfDescriptorsIsSaidAndMended) {
  if (address_sanitized) GTEST_SKIP() << "a sanitizer needs descriptors to look at objects";
  TcpScene scene(3, short_limits);
  const Block block = pattern(100, 1);
  {
    const Limit none(RLIMIT_NOFILE, 3);
    const auto out = scene.port(0)->open();
    out->send(1, user(1), sent(block));
    try {
      scene.until([&] { return out->test(); });
      FAIL() << "nothing is thrown";
    } catch (const ResourceError& error) {
      EXPECT_THAT(error.what(), HasSubstr("ulimit -n"));
    }
  }
  // From another one they are there before it has come to an end.
  Block got(100);
  const auto in = scene.port(0)->open();
  in->recv(2, user(2), room(got));
  const auto out = scene.port(2)->open();
  {
    const Limit none(RLIMIT_NOFILE, 3);
    out->send(0, user(2), sent(block));
    scene.within(std::chrono::milliseconds(50), [] { return false; });
    EXPECT_FALSE(out->test());
  }
  EXPECT_TRUE(scene.until([&] { return int{out->test()} + int{in->test()} == 2; }));
  EXPECT_EQ(got, block);
}

TEST(TcpFaults, NobodyCanListenWhereNobodyIs) {
  tcp::Net net(0, 1, Logger(LogLevel::off, 0));
  EXPECT_THROW(net.listen("192.0.2.1"), NetworkError);
  EXPECT_THROW(net.listen("nowhere"), ConfigError);
}

}  // namespace
}  // namespace hymn::test
