// Connections that are made only with who proves that it belongs to the job.
#include "control/socket_mesh.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/frame.hpp"
#include "control/sockets.hpp"
#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

struct Meshes {
  explicit Meshes(int size, bool is_local = false) {
    for (int rank = 0; rank < size; ++rank) {
      meshes.push_back(listen_for_mesh({.rank = rank,
                                        .size = size,
                                        .one_host = is_local,
                                        .interface = is_local ? "" : "lo",
                                        .service = "test"}));
      endpoints.push_back(meshes.back()->endpoint());
    }
  }
  std::vector<std::unique_ptr<SocketMesh>> meshes;
  std::vector<std::string> endpoints;
};

Deadline soon(Duration limit) { return Deadline::after(limit); }

/// Whoever it is that connects there.
Descriptor dial(const std::string& text) {
  const Endpoint where = parse_endpoint(text);
  Descriptor socket(::socket(where.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.number(), where.data(), static_cast<socklen_t>(where.size())), 0);
  return socket;
}

void expect_echo(int from, int to) {
  const char sent = 'x';
  EXPECT_EQ(::send(from, &sent, 1, 0), 1);
  char got = 0;
  for (int i = 0; i < 200 && ::recv(to, &got, 1, 0) != 1; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(got, sent);
}

void connect_every_two(bool is_local) {
  constexpr int size = 4;
  Meshes all(size, is_local);
  const std::string token = new_mesh_token();
  std::vector<std::vector<Descriptor>> sockets(size);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank)
    threads.emplace_back(
        [&, rank] { sockets[rank] = all.meshes[rank]->connect(token, all.endpoints, soon(10s)); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j) {
      EXPECT_EQ(static_cast<bool>(sockets[i][j]), i != j);
      if (i != j) expect_echo(sockets[i][j].number(), sockets[j][i].number());
    }
}

TEST(SocketMesh, ConnectsEveryTwo) { connect_every_two(false); }
TEST(SocketMesh, ConnectsEveryTwoOfOneHost) { connect_every_two(true); }

TEST(SocketMesh, RefusesWhoDoesNotKnowTheToken) {
  Meshes all(2);
  std::thread server([&] {
    try {
      (void)all.meshes[0]->connect(new_mesh_token(), all.endpoints, soon(500ms));
      ADD_FAILURE() << "somebody was let in";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.context().missing, testing::ElementsAre(1));
    }
  });
  try {
    (void)all.meshes[1]->connect(new_mesh_token(), all.endpoints, soon(5s));
    ADD_FAILURE() << "it was let in";
  } catch (const NetworkError& error) {
    EXPECT_THAT(error.context().missing, testing::ElementsAre(0));
    EXPECT_THAT(error.what(), testing::HasSubstr("token"));
  }
  server.join();
}

/// They hold nothing up, and are told nothing but a challenge.
TEST(SocketMesh, PutsUpWithStrangers) {
  Meshes all(2);
  const std::string token = new_mesh_token();
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(dial(all.endpoints[0]));
  const std::string garbage(300, 'g');
  for (std::size_t i = 0; i < 50; ++i)
    (void)::send(strangers[i].number(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  // As one who knows the protocol, and not the token.
  (void)::send(strangers.back().number(), greeting().data(), greeting().size(), MSG_NOSIGNAL);
  const Bytes nothing = frame(Bytes(100));
  (void)::send(strangers.back().number(), nothing.data(), nothing.size(), MSG_NOSIGNAL);
  std::vector<Descriptor> near;
  std::vector<Descriptor> far;
  std::thread other([&] { far = all.meshes[1]->connect(token, all.endpoints, soon(10s)); });
  near = all.meshes[0]->connect(token, all.endpoints, soon(10s));
  other.join();
  ASSERT_TRUE(near[1] && far[0]);
  expect_echo(near[1].number(), far[0].number());
  // Nobody listens any more.
  const Endpoint where = parse_endpoint(all.endpoints[0]);
  const Descriptor late(::socket(where.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(::connect(late.number(), where.data(), static_cast<socklen_t>(where.size())), 0);
}

TEST(SocketMesh, NamesWhoDoesNotCome) {
  Meshes all(3);
  try {
    (void)all.meshes[0]->connect(new_mesh_token(), all.endpoints, soon(50ms));
    ADD_FAILURE() << "nobody was missed";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.context().missing, testing::ElementsAre(1, 2));
  }
}

}  // namespace
}  // namespace hymn::test
