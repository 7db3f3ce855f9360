// Links between ranks: joining, speaking both ways, losing each other.
#include <fcntl.h>

#include <filesystem>
#include <thread>

#include "hymn/error.hpp"
#include "tests/unit/link_scene.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// None of the limits of both passes where the test has lost its core for a while.
class Link : public ::testing::Test {
 protected:
  LinkServerOptions server_options(int size = 3) {
    return {.listen = on_loopback(),
            .token = token,
            .size = size,
            .limits = {.handshake = 60s, .farewell = 20s}};
  }
  LinkClientOptions client_options(int rank, std::vector<Endpoint> candidates) {
    return {.rank = rank,
            .token = token,
            .candidates = std::move(candidates),
            .per_candidate_limit = 20s,
            .limits = {.farewell = 20s}};
  }
  std::unique_ptr<TestClient> client_of(const TestServer& server, int rank) {
    return std::make_unique<TestClient>(io, client_options(rank, {server.link.endpoint()}));
  }
  std::unique_ptr<TestClient> joined(TestServer& server, int rank) {
    auto client = client_of(server, rank);
    client->link.connect(0, 10s);
    EXPECT_TRUE(turn_until(io, [&] { return client->link.is_connected(); }));
    return client;
  }
  /// An address where nobody listens: the port is taken, and not listened to.
  Endpoint nobody() {
    silent_.open(asio::ip::tcp::v4());
    silent_.bind(on_loopback());
    return silent_.local_endpoint();
  }

  asio::io_context io;
  const Token token = Token::random();
  asio::ip::tcp::socket silent_{io};
};

TEST_F(Link, MembersJoinAndSpeakBothWays) {
  TestServer server(io, server_options());
  const auto zero = joined(server, 0);
  const auto two = joined(server, 2);
  EXPECT_THAT(server.story, ElementsAre("0 joined", "2 joined"));
  EXPECT_THAT(zero->story, ElementsAre("connected 0"));
  EXPECT_TRUE(server.link.is_here(2));
  EXPECT_FALSE(server.link.is_here(1));

  EXPECT_TRUE(zero->link.send(bytes_of("one")));
  EXPECT_TRUE(zero->link.send(bytes_of("")));
  EXPECT_TRUE(zero->link.send(bytes_of("two")));
  EXPECT_TRUE(server.link.send(2, bytes_of("hello")));
  server.link.send_to_all(bytes_of("all"));
  EXPECT_FALSE(server.link.send(1, bytes_of("nobody")));
  ASSERT_TRUE(turn_until(io, [&] {
    return server.story.size() == 5 && zero->story.size() == 2 && two->story.size() == 3;
  }));
  EXPECT_THAT(server.story,
              ElementsAre("0 joined", "2 joined", "0 says one", "0 says ", "0 says two"));
  EXPECT_THAT(zero->story, ElementsAre("connected 0", "heard all"));
  EXPECT_THAT(two->story, ElementsAre("connected 0", "heard hello", "heard all"));
}

TEST_F(Link, CarriesMessagesUpToTheLimit) {
  TestServer server(io, server_options());
  const auto client = joined(server, 1);
  const Bytes large(LinkLimits{}.frame_bytes, std::byte{'x'});
  EXPECT_TRUE(client->link.send(large));
  EXPECT_TRUE(server.link.send(1, large));
  ASSERT_TRUE(
      turn_until(io, [&] { return server.story.size() == 2 && client->story.size() == 2; }));
  EXPECT_EQ(server.story[1], "1 says " + std::string(large.size(), 'x'));
  const Bytes larger(large.size() + 1);
  EXPECT_THROW(client->link.send(larger), UsageError);
  EXPECT_THROW(server.link.send(1, larger), UsageError);
  EXPECT_THROW(server.link.send_to_all(larger), UsageError);
}

TEST_F(Link, ASecondConnectionOfARankTakesThePlaceOfTheFirst) {
  TestServer server(io, server_options());
  const auto first = joined(server, 1);
  const auto second = joined(server, 1);
  ASSERT_TRUE(turn_until(io, [&] { return tells(first->story, "lost"); }));
  second->link.send(bytes_of("here"));
  ASSERT_TRUE(turn_until(io, [&] { return server.story.size() == 3; }));
  EXPECT_THAT(server.story, ElementsAre("1 joined", "1 joined", "1 says here"));
  server.link.send(1, bytes_of("you"));
  ASSERT_TRUE(turn_until(io, [&] { return tells(second->story, "heard you"); }));
}

TEST_F(Link, TheServerIsToldOfALossAndTheRankMayComeAgain) {
  TestServer server(io, server_options());
  joined(server, 1).reset();
  ASSERT_TRUE(turn_until(io, [&] { return tells(server.story, "1 lost: the other end"); }));
  EXPECT_FALSE(server.link.is_here(1));
  joined(server, 1);
  EXPECT_THAT(server.story, ElementsAre("1 joined", HasSubstr("1 lost"), "1 joined"));
}

TEST_F(Link, AClientIsToldThatTheServerIsGoneAndMayTryTheNext) {
  auto server = std::make_unique<TestServer>(io, server_options());
  TestServer next(io, server_options());
  TestClient client(io, client_options(1, {server->link.endpoint(), next.link.endpoint()}));
  client.link.connect(0, 10s);
  ASSERT_TRUE(turn_until(io, [&] { return client.link.is_connected(); }));
  const std::string where = to_string(server->link.endpoint());
  server.reset();
  ASSERT_TRUE(turn_until(io, [&] { return client.story.size() == 2; }));
  EXPECT_THAT(client.story[1], AllOf(HasSubstr("lost: "), HasSubstr(where)));
  EXPECT_FALSE(client.link.is_connected());
  EXPECT_FALSE(client.link.send(bytes_of("into the void")));

  client.link.connect(1, 10s);
  ASSERT_TRUE(turn_until(io, [&] { return client.story.size() == 3; }));
  EXPECT_EQ(client.story[2], "connected 1");
  EXPECT_THAT(next.story, ElementsAre("1 joined"));
}

TEST_F(Link, AClientPassesOverCandidatesThatAreNotThere) {
  TestServer server(io, server_options());
  TestClient client(io, client_options(1, {nobody(), server.link.endpoint()}));
  client.link.connect(0, 10s);
  ASSERT_TRUE(turn_until(io, [&] { return !client.story.empty(); }));
  EXPECT_THAT(client.story, ElementsAre("connected 1"));
}

TEST_F(Link, AClientWaitsForAServerThatComesLater) {
  const Endpoint where = nobody();
  TestClient client(io, client_options(1, {where}));
  client.link.connect(0, 20s);
  ASSERT_TRUE(turn_until(io, [&] { return client.log.size() >= 2; }));
  silent_.close();
  LinkServerOptions options = server_options();
  options.listen = where;
  TestServer server(io, options);
  ASSERT_TRUE(turn_until(io, [&] { return client.link.is_connected(); }));
}

TEST_F(Link, AClientGivesUpWhenItsTimeIsOver) {
  const Endpoint where = nobody();
  TestClient client(io, client_options(1, {where}));
  client.link.connect(0, 120ms);
  ASSERT_TRUE(turn_until(io, [&] { return !client.story.empty(); }));
  EXPECT_THAT(client.story, ElementsAre(AllOf(HasSubstr("lost: no connection within 0.1 s"),
                                              HasSubstr(to_string(where)), HasSubstr("refused"))));
  EXPECT_THROW(client.link.connect(1, 1s), UsageError);
}

TEST_F(Link, ClosingSendsWhatIsQueued) {
  TestServer server(io, server_options());
  const auto client = joined(server, 1);
  const std::string large(200000, 'x');
  client->link.send(bytes_of(large));
  client->link.send(bytes_of("last word"));
  client->link.close();
  EXPECT_FALSE(client->link.send(bytes_of("too late")));
  ASSERT_TRUE(turn_until(io, [&] { return tells(server.story, "1 lost"); }));
  EXPECT_THAT(server.story, ElementsAre("1 joined", "1 says " + large, "1 says last word",
                                        "1 lost: the other end has closed it"));
  EXPECT_THAT(client->story, ElementsAre("connected 0"));

  const auto other = joined(server, 2);
  server.link.send_to_all(bytes_of("good bye"));
  server.link.close();
  ASSERT_TRUE(turn_until(io, [&] { return tells(other->story, "lost"); }));
  EXPECT_THAT(other->story, Contains("heard good bye"));
}

TEST_F(Link, WhoDoesNotReadIsCutOff) {
  LinkServerOptions options = server_options();
  options.limits.queue_bytes = 4 << 20;
  TestServer server(io, options);
  // Its thread of life stands still: nobody turns its io_context any more.
  asio::io_context other;
  TestClient client(other, client_options(1, {server.link.endpoint()}));
  client.link.connect(0, 10s);
  ASSERT_TRUE(turn_until(io, [&] {
    other.restart();
    other.poll();
    return client.link.is_connected();
  }));
  const auto friendly = joined(server, 2);
  const Bytes message(100000);
  int sent = 0;
  while (server.link.send(1, message) && sent < 10000) ++sent;
  EXPECT_GE(sent, 40);
  EXPECT_LT(sent, 10000);
  EXPECT_FALSE(tells(server.story, "lost")) << "told from within send()";
  ASSERT_TRUE(turn_until(io, [&] { return tells(server.story, "1 lost: it does not read"); }));
  server.link.send(2, bytes_of("still there"));
  ASSERT_TRUE(turn_until(io, [&] { return tells(friendly->story, "heard still there"); }));
}

TEST_F(Link, AHandlerMayEndWhatCalledIt) {
  auto server = std::make_unique<TestServer>(io, server_options());
  std::unique_ptr<LinkClient> client;
  int calls = 0;
  client = std::make_unique<LinkClient>(
      io, client_options(1, {server->link.endpoint()}),
      LinkClient::Handlers{.connected = {},
                           .message =
                               [&](std::span<const std::byte>) {
                                 ++calls;
                                 client.reset();
                               },
                           .lost = [&](const std::string&) { ++calls; }});
  client->connect(0, 10s);
  ASSERT_TRUE(turn_until(io, [&] { return !server->story.empty(); }));
  server->link.send(1, bytes_of("one"));
  server->link.send(1, bytes_of("two"));
  ASSERT_TRUE(turn_until(io, [&] { return tells(server->story, "lost"); }));
  EXPECT_EQ(calls, 1);
}

TEST_F(Link, NoHandlerIsCalledAfterTheEnd) {
  TestServer server(io, server_options());
  auto client = joined(server, 1);
  auto other = std::make_unique<TestServer>(io, server_options());
  auto friendly = joined(*other, 1);
  // Both have something that waits for them; both are gone before they could hear it.
  server.link.send(1, bytes_of("late"));
  friendly->link.send(bytes_of("late"));
  std::this_thread::sleep_for(20ms);
  client.reset();
  other.reset();
  ASSERT_TRUE(turn_until(io, [&] { return tells(server.story, "lost"); }));
  ASSERT_TRUE(turn_until(io, [&] { return tells(friendly->story, "lost"); }));
}

TEST_F(Link, EndsWellWhenNothingTurnsTheContextAnyMore) {
  auto server = std::make_unique<TestServer>(io, server_options());
  auto client = joined(*server, 1);
  auto waiting = client_of(*server, 2);
  waiting->link.connect(0, 10s);
  client->link.send(bytes_of("never sent"));
  io.stop();
}

TEST_F(Link, SocketsDoNotOutliveAnExec) {
  TestServer server(io, server_options());
  const auto client = joined(server, 1);
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || !target.starts_with("socket:")) continue;
    const int number = std::stoi(entry.path().filename());
    ++sockets;
    EXPECT_NE(fcntl(number, F_GETFD) & FD_CLOEXEC, 0) << number;
  }
  EXPECT_GE(sockets, 3);
}

TEST_F(Link, AServerMayGiveTheRanks) {
  LinkServerOptions options = server_options(2);
  options.gives_ranks = true;
  TestServer server(io, options);
  auto first = joined(server, -1);
  const auto second = joined(server, -1);
  first.reset();
  ASSERT_TRUE(turn_until(io, [&] { return tells(server.story, "0 lost"); }));
  const auto third = joined(server, -1);
  EXPECT_THAT(server.story, ElementsAre("0 joined", "1 joined", HasSubstr("0 lost"), "0 joined"));
  LinkClientOptions one_more = client_options(-1, {server.link.endpoint()});
  one_more.gives_up_when_refused = true;
  TestClient more(io, one_more);
  more.link.connect(0, 20s);
  ASSERT_TRUE(turn_until(io, [&] { return tells(more.story, "lost"); }));
  EXPECT_THAT(server.log, ElementsAre(HasSubstr("all 2 places are taken")));
}

TEST(Endpoint, GoesToTextAndBack) {
  for (const std::string text : {"10.0.0.1:4711", "[::1]:80", "0.0.0.0:0"})
    EXPECT_EQ(to_string(parse_endpoint(text)), text);
  for (const std::string text :
       {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:70000", "::1:80", "host:80", "10.0.0.1:80x"}) {
    try {
      parse_endpoint(text);
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("'" + text + "'"));
    }
  }
}

TEST(Listening, SaysWhereItCouldNot) {
  asio::io_context io;
  const LinkServer one(io, {.listen = on_loopback(), .size = 1}, {});
  try {
    const LinkServer two(io, {.listen = one.endpoint(), .size = 1}, {});
    FAIL() << "two listen at one port";
  } catch (const NetworkError& error) {
    EXPECT_THAT(error.what(), HasSubstr(to_string(one.endpoint())));
  }
}

}  // namespace
}  // namespace hymn::test
