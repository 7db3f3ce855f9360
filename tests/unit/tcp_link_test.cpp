// One connection for both directions between two ranks, whoever makes it, and both at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <list>
#include <random>
#include <thread>

#include "base/sanitizers.hpp"
#include "tests/unit/tcp_scene.hpp"

namespace hymn::test {
namespace {

constexpr tcp::Limits impatient{.connecting = std::chrono::milliseconds(200)};

int descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

/// How many ends there are in this process of connections that were made to this address.
int connections_to(const tcp::Address& address) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    const int number = std::stoi(entry.path().filename());
    if (::getpeername(number, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    const bool is_one =
        peer.sin_family == AF_INET && std::to_string(ntohs(peer.sin_port)) == address.port();
    count += is_one ? 1 : 0;
  }
  return count;
}

struct Delivery {
  int by = 0;
  int from = 0;
  int tag = 1;
};

/// Waits for the message.
void expect_received(TcpScene& scene, const Delivery& message, const Block& expected) {
  Block got(expected.size());
  const auto in = scene.port(message.by)->open();
  in->recv(message.from, user(message.tag), room(got));
  ASSERT_TRUE(scene.until([&] { return in->test(); }));
  EXPECT_EQ(got, expected);
}

/// Messages both ways between the first two ranks.
class Talk {
 public:
  Talk(TcpScene& scene, std::minstd_rand& random, std::size_t messages, std::size_t most_bytes)
      : scene_(scene) {
    for (std::size_t i = 0; i < messages; ++i)
      for (Side& side : sides_) {
        side.blocks.push_back(pattern(random() % most_bytes, random()));
        side.got.emplace_back(side.blocks.back().size());
      }
  }
  void send(int rank) {
    Side& side = side_of(rank);
    side.out = scene_.port(rank)->open();
    for (const Block& block : side.blocks) side.out->send(1 - rank, user(1), sent(block));
  }
  void receive(int rank) {
    Side& other = side_of(1 - rank);
    other.in = scene_.port(rank)->open();
    for (Block& block : other.got) other.in->recv(1 - rank, user(1), room(block));
  }
  void begin() {
    for (const int rank : {0, 1}) {
      send(rank);
      receive(rank);
    }
  }
  bool is_done() {
    bool done = true;
    for (Side& side : sides_) {
      side.out_done = side.out_done || side.out->test();
      side.in_done = side.in_done || side.in->test();
      done = done && side.out_done && side.in_done;
    }
    return done;
  }
  /// And nothing else than what was sent has come.
  bool comes() {
    if (!scene_.until([this] { return is_done(); })) return false;
    return std::ranges::all_of(sides_, [](const Side& one) { return one.got == one.blocks; });
  }

 private:
  struct Side {
    std::vector<Block> blocks{};
    std::vector<Block> got{};  ///< by the other one
    std::unique_ptr<Transfers> out{};
    std::unique_ptr<Transfers> in{};
    bool out_done = false;
    bool in_done = false;
  };
  Side& side_of(int rank) { return sides_[static_cast<std::size_t>(rank)]; }

  TcpScene& scene_;
  std::array<Side, 2> sides_;
};

TEST(TcpLink, CarriesBothDirectionsOverTheConnectionThatThereIs) {
  for (const int first : {0, 1}) {
    TcpScene scene(2);
    std::minstd_rand random(3);
    for (int round = 0; round < 3; ++round) {
      Talk talk(scene, random, 3, 600'000);
      talk.send(first);
      talk.receive(1 - first);
      // The other one has heard of it when it has something to say.
      scene.within(std::chrono::milliseconds(20), [] { return false; });
      talk.send(1 - first);
      talk.receive(first);
      ASSERT_TRUE(talk.comes()) << first;
    }
    EXPECT_EQ(connections_to(scene.net(1 - first).listens_at().value()), 1);
    EXPECT_EQ(connections_to(scene.net(first).listens_at().value()), 0);
  }
}

TEST(TcpLink, TakesADescriptorForEachPeer) {
  constexpr int ranks = 6;
  constexpr int of_each = 3;  // its listener, what it waits by, and what it is woken by
  const int before = descriptors();
  TcpScene scene(ranks);
  std::vector<std::unique_ptr<Transfers>> all;
  std::list<Block> got;
  const Block block = pattern(1000, 1);
  for (int rank = 0; rank < ranks; ++rank)
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      const auto port = scene.port(rank);
      all.push_back(port->open());
      all.back()->send(peer, user(1), sent(block));
      all.push_back(port->open());
      all.back()->recv(peer, user(1), room(got.emplace_back(block.size())));
    }
  ASSERT_TRUE(scene.until(
      [&] { return std::erase_if(all, [](auto& one) { return one->test(); }), all.empty(); }));
  EXPECT_TRUE(scene.until([&] { return descriptors() == before + ranks * (of_each + ranks - 1); }));
}

TEST(TcpLink, OfTwoConnectionsThatAreMadeAtOnceThatOfTheLowerRankStays) {
  TcpScene scene(2);
  std::minstd_rand random(5);
  Talk talk(scene, random, 3, 600'000);
  talk.begin();
  // Both say their hello before they look who has come.
  scene.net(0).turn();
  scene.net(1).turn();
  ASSERT_TRUE(talk.comes());
  const auto to = [&](int rank) { return connections_to(scene.net(rank).listens_at().value()); };
  EXPECT_TRUE(scene.until([&] { return to(1) == 1 && to(0) == 0; })) << to(1) << " " << to(0);
}

// In any order, and without trouble.
TEST(TcpLink, NothingIsLostByConnectionsThatAreMadeAtOnce) {
  std::minstd_rand random(7);
  for (int round = 0; round < (sanitized ? 50 : 200); ++round) {
    TcpScene scene(2);
    Talk talk(scene, random, 1 + random() % 4, 400'000);
    const int first = static_cast<int>(random() % 2);
    talk.send(first);
    for (auto turns = random() % 4; turns > 0; --turns)
      scene.net(static_cast<int>(random() % 2)).turn();
    talk.send(1 - first);
    for (auto turns = random() % 10; turns > 0; --turns)
      scene.net(static_cast<int>(random() % 2)).turn();
    for (const int rank : {0, 1}) talk.receive(rank);
    ASSERT_TRUE(scene.until([&] {
      scene.net(static_cast<int>(random() % 2)).turn();
      for (const int rank : {0, 1}) {
        const std::string trouble = scene.net(rank).trouble_with(1 - rank);
        EXPECT_TRUE(trouble.empty() || trouble.ends_with("nobody has answered there yet"))
            << trouble;
      }
      return talk.is_done();
    })) << round;
    ASSERT_TRUE(talk.comes()) << round;
  }
}

// Again and again, which makes both connect anew, and with different turns.
TEST(TcpLink, NothingIsLostByCutsWhileConnectionsAreMade) {
  std::minstd_rand random(11);
  for (int round = 0; round < (sanitized ? 5 : 20); ++round) {
    TcpScene scene(2);
    for (int more = 0; more < 3; ++more) {
      Talk talk(scene, random, 1 + random() % 4, 1'000'000);
      talk.begin();
      for (auto turns = random() % 60; turns > 0; --turns) {
        scene.net(static_cast<int>(random() % 2)).turn();
        const int cutter = static_cast<int>(random() % 2);
        if (random() % 8 == 0) scene.net(cutter).cut(1 - cutter);
        if (random() % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(25));
      }
      ASSERT_TRUE(talk.comes()) << round;
    }
  }
}

/// Where nobody ever answers one who connects: as behind a firewall that drops what comes, or where
/// the address is somebody else's, who hears and says nothing.
class Wall {
 public:
  explicit Wall(bool drops) : listener_(tcp::listen_at(tcp::Address::parse("127.0.0.1", "0"))) {
    if (!drops) return;
    ::listen(listener_.number(), 0);
    for (Descriptor& one : callers_) one = tcp::begin_connect(address());
  }
  tcp::Address address() const { return tcp::Address::of(listener_.number()); }

 private:
  Descriptor listener_;
  std::array<Descriptor, 4> callers_;  // all that may wait there
};

TEST(TcpLink, WhereOnlyOneCanConnectThatConnectionIsTaken) {
  for (const bool drops : {false, true})
    for (const int blocked : {0, 1})
      for (const bool blocked_begins : {false, true}) {
        SCOPED_TRACE(testing::Message() << drops << blocked << blocked_begins);
        const Wall wall(drops);
        TcpScene scene(2, impatient, "127.0.0.1", false);
        scene.introduce(1 - blocked, blocked);
        scene.net(blocked).introduce(1 - blocked, wall.address(), scene.net(1 - blocked).nonce());
        std::minstd_rand random(13);
        for (int round = 0; round < 3; ++round) {
          Talk talk(scene, random, 3, 600'000);
          if (blocked_begins) {
            talk.send(blocked);
            scene.within(std::chrono::milliseconds(50), [] { return false; });
            talk.send(1 - blocked);
          } else {
            talk.send(1 - blocked);
            talk.send(blocked);
          }
          for (const int rank : {0, 1}) talk.receive(rank);
          ASSERT_TRUE(talk.comes());
          scene.net(round % 2).cut(1 - round % 2);
        }
      }
}

// It has said all, and ended, while this rank was about to say something.
TEST(TcpLink, TheLastWordsOfOneThatHasEndedAreHeard) {
  TcpScene scene(2);
  std::minstd_rand random(17);
  Talk talk(scene, random, 3, 60'000);
  talk.begin();
  ASSERT_TRUE(talk.comes());
  const Block block = pattern(60'000, 1);
  const auto last = scene.port(0)->open();
  last->send(1, user(2), sent(block));
  scene.net(0).shut_down(std::chrono::seconds(1));
  const auto out = scene.port(1)->open();
  for (int i = 0; i < 3; ++i) {
    out->send(0, user(2), sent(block));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // what answers it has come
  }
  expect_received(scene, {.by = 1, .from = 0, .tag = 2}, block);
}

// Also where this rank had its own connection, and left the other one unread for that.
TEST(TcpLink, TheLastWordsOnAConnectionThatWaitsAreHeard) {
  TcpScene scene(2);
  const Block block = pattern(60'000, 1);
  const auto mine = scene.port(0)->open();
  mine->send(1, user(1), sent(block));
  const auto last = scene.port(1)->open();
  last->send(0, user(1), sent(block));
  scene.net(1).turn();                                          // its hello is said
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // and has come to this host
  scene.net(0).turn();  // and this rank's, before the other one is heard
  scene.net(1).shut_down(std::chrono::seconds(1));
  expect_received(scene, {.by = 0, .from = 1, .tag = 1}, block);
}

// It was closed, and the peer has gone on with this rank's own.
TEST(TcpLink, AConnectionThatIsClosedAlreadyDisplacesNone) {
  TcpScene scene(2);
  const Block block = pattern(1000, 1);
  const Block next = pattern(1000, 2);
  const auto lost = scene.port(0)->open();
  lost->send(1, user(1), sent(block));
  scene.net(0).turn();  // its hello is said, and the message
  scene.net(0).cut(1);
  const auto mine = scene.port(1)->open();
  mine->send(0, user(1), sent(block));
  scene.net(1).turn();
  const auto last = scene.port(0)->open();
  last->send(1, user(1), sent(next));
  scene.net(0).turn();  // by rank 1's connection
  scene.net(0).shut_down(std::chrono::seconds(1));
  for (const Block& expected : {block, next}) {
    expect_received(scene, {.by = 1, .from = 0, .tag = 1}, expected);
  }
}

// One that the peer has made after it has lost this rank's own, which is here to be read still.
TEST(TcpLink, TheLastWordsOnAConnectionThatIsClosedAlreadyAreHeard) {
  TcpScene scene(2);
  const Block block = pattern(1000, 1);
  const auto mine = scene.port(0)->open();
  mine->send(1, user(1), sent(block));
  scene.net(0).turn();
  scene.net(1).turn();  // it is welcome
  scene.net(1).cut(0);
  const auto last = scene.port(1)->open();
  last->send(0, user(1), sent(block));
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < until) scene.net(1).turn();
  scene.net(1).shut_down(std::chrono::seconds(1));
  expect_received(scene, {.by = 0, .from = 1, .tag = 1}, block);
}

}  // namespace
}  // namespace hymn::test
