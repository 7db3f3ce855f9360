// What strangers may do to a star of links: nothing, but cost a line in the log.
#include "control/handshake.hpp"
#include "hymn/error.hpp"
#include "tests/unit/link_scene.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A server with one member, to which nothing may happen.
class Strangers : public ::testing::Test {
 protected:
  // Who has lost its core must not look slow.
  void serve(LinkLimits limits = {.handshake = 60s}) {
    server = std::make_unique<TestServer>(
        io,
        LinkServerOptions{.listen = on_loopback(), .token = token, .size = 3, .limits = limits});
    member = client(0);
    member->link.connect(0, 10s);
    ASSERT_TRUE(turn_until(io, [&] { return member->link.is_connected(); }));
  }
  std::unique_ptr<TestClient> client(int rank) { return client(rank, token); }
  std::unique_ptr<TestClient> client(int rank, const Token& its_token,
                                     const std::string& service = "link") {
    return std::make_unique<TestClient>(io,
                                        LinkClientOptions{.rank = rank,
                                                          .token = its_token,
                                                          .candidates = {server->link.endpoint()},
                                                          .per_candidate_limit = 20s,
                                                          .gives_up_when_refused = true,
                                                          .service = service});
  }
  RawPeer stranger() { return {io, server->link.endpoint()}; }
  void expect_refused(TestClient& peer) {
    peer.link.connect(0, 20s);
    ASSERT_TRUE(turn_until(io, [&] { return !peer.story.empty(); }));
    EXPECT_THAT(peer.story, ElementsAre(HasSubstr("lost: ")));
  }
  /// The member is there as before, and nobody else has come.
  void expect_peace() {
    member->link.send(bytes_of("still here"));
    ASSERT_TRUE(turn_until(io, [&] { return server->story.size() >= 2; }));
    EXPECT_THAT(server->story, ElementsAre("0 joined", "0 says still here"));
    EXPECT_THAT(member->story, ElementsAre("connected 0"));
  }

  asio::io_context io;
  const Token token = Token::random();
  std::unique_ptr<TestServer> server;
  std::unique_ptr<TestClient> member;
};

TEST_F(Strangers, WithAnotherTokenAreRefused) {
  serve();
  const auto liar = client(1, Token::random());
  expect_refused(*liar);
  EXPECT_THAT(server->log, ElementsAre(AllOf(HasSubstr("127.0.0.1"), HasSubstr("token"))));
  expect_peace();
}

TEST_F(Strangers, WithRanksThatAreNotInTheJobAreRefused) {
  serve();
  for (const int rank : {3, -1}) {
    const auto liar = client(rank);
    expect_refused(*liar);
  }
  EXPECT_THAT(server->log, ElementsAre(HasSubstr("rank 3 of a job of 3")));
  expect_peace();
}

TEST_F(Strangers, OfAnotherServiceAreRefused) {
  serve();
  const auto lost = client(1, token, "store");
  expect_refused(*lost);
  expect_peace();
}

TEST_F(Strangers, ThatSpeakSomethingElseAreSentAway) {
  serve();
  RawPeer browser = stranger();
  browser.say(bytes_of("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(browser.is_sent_away());
  EXPECT_THAT(server->log,
              ElementsAre(AllOf(HasSubstr("127.0.0.1"), HasSubstr("does not speak hymn's"))));
  expect_peace();
}

TEST_F(Strangers, OfAnotherVersionAreSentAway) {
  serve();
  auto other = greeting();
  other[4] = std::byte{77};
  RawPeer peer = stranger();
  peer.say(other);
  EXPECT_TRUE(peer.is_sent_away());
  EXPECT_THAT(server->log, ElementsAre(HasSubstr("version 77")));
  expect_peace();
}

TEST_F(Strangers, MayNotSendLargeFrames) {
  serve();
  RawPeer peer = stranger();
  peer.say(greeting());
  peer.say(frame(Bytes(FrameReader::stranger_limit + 1)));
  EXPECT_TRUE(peer.is_sent_away());
  EXPECT_THAT(server->log, ElementsAre(HasSubstr("frame of 257 bytes")));
  expect_peace();
}

TEST_F(Strangers, ThatSayNonsenseAreSentAway) {
  serve();
  for (const std::size_t length : {0, 1, 8, 72, 88, 89, 200}) {
    RawPeer peer = stranger();
    peer.say(greeting());
    peer.say(frame(Bytes(length, std::byte{1})));
    EXPECT_TRUE(peer.is_sent_away()) << length;
  }
  EXPECT_THAT(server->log, SizeIs(1)) << "one line for one kind and address";
  expect_peace();
}

TEST_F(Strangers, ThatAreSlowAreSentAway) {
  serve({.handshake = 100ms});
  RawPeer silent = stranger();
  RawPeer slow = stranger();
  slow.say_beginning(greeting(), 5);
  EXPECT_TRUE(silent.is_sent_away());
  EXPECT_TRUE(slow.is_sent_away());
  EXPECT_THAT(server->log, ElementsAre(HasSubstr("not finished the handshake in time")));
  expect_peace();
}

// A trickle of bytes does not make the time longer.
TEST_F(Strangers, ThatTrickleAreSentAway) {
  serve({.handshake = 100ms});
  RawPeer peer = stranger();
  peer.say(greeting());
  peer.say_beginning(frame(Bytes(200)), 4);
  const Bytes one(1);
  int said = 0;
  ASSERT_TRUE(turn_until(io, [&] {
    if (said < 150) peer.say(one);
    ++said;
    turn_for(io, 2ms);
    return peer.is_closed();
  }));
  EXPECT_LT(said, 200) << "its frame was complete before";
  expect_peace();
}

TEST_F(Strangers, InACrowdKeepNoMemberOut) {
  serve({.handshake = 60s, .strangers = 4});
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<RawPeer>(io, server->link.endpoint()));
    turn_for(io, 1ms);
  }
  const auto late = client(2);
  late->link.connect(0, 10s);
  ASSERT_TRUE(turn_until(io, [&] { return late->link.is_connected(); }));
  int open = 0;
  for (const auto& peer : crowd) open += peer->is_closed() ? 0 : 1;
  EXPECT_LE(open, 4 + 2) << "one for each rank that is missing, and four";
  EXPECT_GE(open, 1);
  EXPECT_THAT(server->log, ElementsAre(HasSubstr("too many others")));
}

TEST_F(Strangers, CannotUseAProofAgain) {
  serve();
  // What a member said on one connection says nothing on another.
  ClientHandshake honest(token, "link", 1);
  RawPeer first = stranger();
  ASSERT_TRUE(turn_until(io, [&] { return first.heard().size() >= 8 + 4 + 40; }));
  const Bytes heard = first.heard();
  const Bytes hello = frame(honest.hello(std::span(heard).subspan(12)));
  RawPeer second = stranger();
  second.say(greeting());
  second.say(hello);
  EXPECT_TRUE(second.is_sent_away());
  EXPECT_FALSE(tells(server->story, "1 joined"));
  first.say(greeting());
  first.say(hello);
  ASSERT_TRUE(turn_until(io, [&] { return tells(server->story, "1 joined"); }));
}

TEST_F(Strangers, AMemberThatSendsTooMuchIsCutOffAlone) {
  serve();
  ClientHandshake handshake(token, "link", 1);
  RawPeer peer = stranger();
  ASSERT_TRUE(turn_until(io, [&] { return peer.heard().size() >= 8 + 4 + 40; }));
  peer.say(greeting());
  const Bytes heard = peer.heard();
  peer.say(frame(handshake.hello(std::span(heard).subspan(12))));
  ASSERT_TRUE(turn_until(io, [&] { return tells(server->story, "1 joined"); }));
  peer.say_beginning(frame(Bytes((1 << 20) + 1)), 100);
  EXPECT_TRUE(peer.is_sent_away());
  ASSERT_TRUE(turn_until(io, [&] { return tells(server->story, "1 lost"); }));
  EXPECT_THAT(server->story.back(), HasSubstr("frame of 1048577 bytes, and the limit is 1048576"));
  server->link.send(0, bytes_of("and you"));
  ASSERT_TRUE(turn_until(io, [&] { return tells(member->story, "heard and you"); }));
}

/// Somebody who serves without knowing the token.
class FalseServer {
 public:
  explicit FalseServer(asio::io_context& io) : acceptor_(io, on_loopback()) {}
  Endpoint endpoint() const { return acceptor_.local_endpoint(); }
  asio::ip::tcp::socket accept() { return acceptor_.accept(); }

 private:
  asio::ip::tcp::acceptor acceptor_;
};

TEST_F(Strangers, CannotServe) {
  FalseServer impostor(io);
  TestClient peer(io, {.rank = 1,
                       .token = token,
                       .candidates = {impostor.endpoint()},
                       .per_candidate_limit = 20s,
                       .gives_up_when_refused = true});
  peer.link.connect(0, 20s);
  turn_for(io, 20ms);
  auto socket = impostor.accept();
  const ServerHandshake handshake(Token::random(), "link");
  asio::write(socket, asio::buffer(greeting()));
  asio::write(socket, asio::buffer(frame(handshake.challenge())));
  // It sends the client's own proof back, for want of one.
  Bytes hello(8 + 4 + 88);
  socket.non_blocking(true);
  std::size_t got = 0;
  ASSERT_TRUE(turn_until(io, [&] {
    asio::error_code error;
    got += socket.read_some(asio::buffer(hello.data() + got, hello.size() - got), error);
    return got == hello.size();
  }));
  asio::write(socket, asio::buffer(frame(std::span(hello).last(40))));
  ASSERT_TRUE(turn_until(io, [&] { return !peer.log.empty(); }));
  EXPECT_THAT(peer.log[0], HasSubstr("the server does not know the token"));
  EXPECT_FALSE(peer.link.is_connected());
  ASSERT_TRUE(turn_until(io, [&] { return !peer.story.empty(); }));
  EXPECT_THAT(peer.story, ElementsAre(HasSubstr("lost")));
}

TEST_F(Strangers, ThatServeNothingCostNoMoreThanTheTimeOfACandidate) {
  serve();
  FalseServer silent(io);
  TestClient peer(io, {.rank = 1,
                       .token = token,
                       .candidates = {silent.endpoint(), server->link.endpoint()},
                       .per_candidate_limit = 50ms});
  peer.link.connect(0, 20s);
  ASSERT_TRUE(turn_until(io, [&] { return !peer.story.empty(); }));
  EXPECT_THAT(peer.story, ElementsAre("connected 1"));
  // The other's time may be over, too, where the test has lost its core.
  EXPECT_THAT(peer.log, AllOf(Not(IsEmpty()), Each(HasSubstr("no answer in time"))));
}

}  // namespace
}  // namespace hymn::test
