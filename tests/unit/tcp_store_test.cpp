// TcpStore between processes and threads, and what happens when its server is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <memory>
#include <thread>

#include "control/process_watch.hpp"
#include "hymn/store.hpp"
#include "tests/support/child.hpp"
#include "tests/unit/link_scene.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const std::string token = TcpStore::make_token();

TcpStoreOptions client_of(int port) { return {.port = port, .token = token, .timeout = 20s}; }

TcpStoreOptions server_options() { return {.is_server = true, .token = token, .timeout = 20s}; }

std::string error_of(const std::function<void()>& action) {
  try {
    action();
    return "no error";
  } catch (const UsageError& error) {
    return std::string("usage: ") + error.what();
  } catch (const NetworkError& error) {
    return std::string("network: ") + error.what();
  } catch (const ConfigError& error) {
    return std::string("config: ") + error.what();
  }
}

/// A server in a process of its own, which may be killed or stopped.
class ServerProcess {
 public:
  ServerProcess()
      : child_([this] {
          const TcpStore server(server_options());
          wire_.send(std::to_string(server.port()));
          pause();
          return std::string();
        }),
        port_(std::stoi(wire_.receive())) {}
  int port() const { return port_; }
  Child& process() { return child_; }

 private:
  Wire wire_;
  Child child_;
  int port_;
};

// This one first: it forks before there are threads.
TEST(ATcpStore, ServesProcesses) {
  ServerProcess server;
  std::vector<std::unique_ptr<Child>> children;
  for (int p = 0; p < 3; ++p)
    children.push_back(std::make_unique<Child>([&server, p] {
      TcpStore store(client_of(server.port()));
      for (int i = 0; i < 100; ++i) store.add("sum", p + 1);
      store.set("done " + std::to_string(p), "yes");
      store.wait({"done 0", "done 1", "done 2"});
      return store.get_text("sum");
    }));
  for (const auto& child : children) EXPECT_EQ(child->report(), "600");
}

TEST(ATcpStore, AKilledClientHarmsNobody) {
  ServerProcess server;
  for (int round = 0; round < 10; ++round) {
    Wire wire;
    Child client([&] {
      TcpStore store(client_of(server.port()));
      wire.send("go");
      const std::string large(1 << 20, 'x');
      while (true) store.set("large", large);
      return std::string();
    });
    wire.receive();
    usleep(static_cast<useconds_t>(300 * round));
    client.kill();
  }
  Child survivor([&] {
    TcpStore store(client_of(server.port()));
    store.set("after", "all is well");
    return store.get_text("after") + " " + std::to_string(store.num_keys() <= 2);
  });
  EXPECT_EQ(survivor.report(), "all is well 1");
}

TEST(ATcpStore, AKilledServerEndsAllCalls) {
  ServerProcess server;
  Wire wire;
  Child client([&] {
    TcpStore store(client_of(server.port()));
    auto waiting = std::async(
        std::launch::async, [&] { return error_of([&] { store.get("never", Timeout::none()); }); });
    store.set("here", "");
    wire.send("go");
    std::string report = waiting.get() + "\n";
    report += error_of([&] { store.set("a", "1"); }) + "\n";
    report += error_of([&] { store.num_keys(); });
    return report;
  });
  wire.receive();
  server.process().kill();
  const std::string report = client.report();
  EXPECT_EQ(report.find("no error"), std::string::npos) << report;
  EXPECT_NE(report.find("network: the server of the store"), std::string::npos) << report;
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 2);
  EXPECT_NE(report.find("remedy"), std::string::npos);
}

TEST(ATcpStore, AStoppedServerIsNotWaitedForForEver) {
  ServerProcess server;
  Wire to_test;
  Wire to_client;
  Child client([&] {
    TcpStore store(client_of(server.port()));
    store.set("here", "");
    to_test.send("stop it");
    to_client.receive();
    store.set_timeout(50ms);
    return error_of([&] { store.set("a", "1"); });
  });
  to_test.receive();
  ::kill(server.process().pid(), SIGSTOP);
  while (!is_stopped(server.process().pid())) std::this_thread::yield();
  to_client.send("stopped");
  const std::string report = client.report();
  EXPECT_NE(report.find("network: the server of the store does not answer in time"),
            std::string::npos)
      << report;
}

TEST(ATcpStore, AClientMayComeBeforeTheServer) {
  // The port of a server that is gone again is as good as any that nobody uses.
  const int port = TcpStore(server_options()).port();
  auto client = std::async(std::launch::async, [port] {
    TcpStore store(client_of(port));
    return store.get_text("late");
  });
  TcpStoreOptions options = server_options();
  options.port = port;
  TcpStore server(options);
  server.set("late", "but here");
  EXPECT_EQ(client.get(), "but here");
}

TEST(ATcpStore, ClientsWithAnotherTokenAreRefusedAtOnce) {
  TcpStore server(server_options());
  TcpStoreOptions options = client_of(server.port());
  options.timeout = Timeout::none();
  for (const std::string& wrong : {TcpStore::make_token(), std::string()}) {
    options.token = wrong;
    EXPECT_THAT(error_of([&] { TcpStore store(options); }),
                AllOf(::testing::HasSubstr("network: "), ::testing::HasSubstr("refuses")));
  }
  options.token = "secret";
  EXPECT_THAT(error_of([&] { TcpStore store(options); }), ::testing::HasSubstr("config: "));
  server.set("still", "there");
  EXPECT_EQ(server.get_text("still"), "there");
}

TEST(ATcpStore, ServersOfAnotherTokenAreNotTrusted) {
  TcpStoreOptions open = server_options();
  open.token = "";
  TcpStore server(open);
  TcpStoreOptions options = client_of(server.port());
  EXPECT_THAT(error_of([&] { TcpStore store(options); }), ::testing::HasSubstr("network: "));
  options.token = "";
  TcpStore client(options);
  client.set("a", "1");
  EXPECT_EQ(server.get_text("a"), "1");
}

TEST(ATcpStore, OptionsThatCannotBeAreRefused) {
  EXPECT_THAT(error_of([] { TcpStore store({}); }),
              ::testing::HasSubstr("usage: a client of a store needs the server's port"));
  EXPECT_THAT(error_of([] { TcpStore store({.port = 70000}); }), ::testing::HasSubstr("usage: "));
  EXPECT_THAT(error_of([] { TcpStore store({.host = "0.0.0.0", .is_server = true}); }),
              AllOf(::testing::HasSubstr("usage: "), ::testing::HasSubstr("has no token")));
  EXPECT_THAT(error_of([] { TcpStore store({.host = "no.such.host.invalid", .port = 1}); }),
              ::testing::HasSubstr("network: the host 'no.such.host.invalid'"));
  const TcpStore server(server_options());
  TcpStoreOptions again = server_options();
  again.port = server.port();
  EXPECT_THAT(error_of([&] { TcpStore store(again); }),
              ::testing::HasSubstr("network: cannot listen at"));
  EXPECT_THAT(error_of([&] { TcpStore store({.port = 1, .timeout = 50ms}); }),
              ::testing::HasSubstr("network: "));
}

TEST(ATcpStore, AServerOnAllAddressesIsReachedByName) {
  TcpStoreOptions options = server_options();
  options.host = "0.0.0.0";
  TcpStore server(options);
  TcpStoreOptions by_name = client_of(server.port());
  by_name.host = "localhost";
  TcpStore client(by_name);
  client.set("a", "1");
  EXPECT_EQ(server.get_text("a"), "1");
}

TEST(ATcpStore, ClientsThatWaitDoNotOutliveTheServer) {
  auto server = std::make_unique<TcpStore>(server_options());
  TcpStore client(client_of(server->port()));
  auto waiting = std::async(std::launch::async, [&] {
    return error_of([&] { client.wait({"never"}, Timeout::none()); });
  });
  client.set("here", "");
  server.reset();
  EXPECT_THAT(waiting.get(), ::testing::HasSubstr("network: "));
}

TEST(ATcpStore, NonsenseCostsTheConnectionAlone) {
  TcpStore server(server_options());
  asio::io_context io;
  TestClient liar(io, {.token = Token::parse(token),
                       .candidates = {on_loopback(static_cast<unsigned short>(server.port()))},
                       .service = "store"});
  liar.link.connect(0, 10s);
  ASSERT_TRUE(turn_until(io, [&] { return liar.link.is_connected(); }));
  liar.link.send(bytes_of("gibberish"));
  ASSERT_TRUE(turn_until(io, [&] { return tells(liar.story, "lost"); }));
  server.set("a", "1");
  EXPECT_EQ(server.num_keys(), 1);
}

}  // namespace
}  // namespace hymn::test
