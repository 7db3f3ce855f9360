// TcpStore: values in the memory of a server, reached over TCP.
#include <fmt/format.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <utility>

#include "base/own_process.hpp"
#include "control/store_client.hpp"
#include "control/store_server.hpp"
#include "hymn/store.hpp"

namespace hymn {
namespace {

// The server answers when the time is over; only one that hangs makes the client end the wait.
constexpr Duration grace = std::chrono::seconds(5);

std::vector<Endpoint> resolve(const TcpStoreOptions& options) {
  asio::io_context io;
  asio::ip::tcp::resolver resolver(io);
  asio::error_code error;
  const auto found = resolver.resolve(options.host, std::to_string(options.port), error);
  std::vector<Endpoint> all;
  if (!error)
    for (const auto& entry : found) all.push_back(entry.endpoint());
  if (all.empty())
    throw NetworkError(
        fmt::format("the host '{}' of a store is not known: {}", options.host, error.message()),
        {.remedy = "give its address, or a name that can be resolved here"});
  return all;
}

void check_options(const TcpStoreOptions& options) {
  if (options.port < 0 || options.port > 65535)
    throw UsageError(fmt::format("{} is not a valid port for a store", options.port),
                     {.remedy = "give one from 1 to 65535"});
  if (options.port == 0 && !options.is_server)
    throw UsageError("a client of a store needs the server's port",
                     {.remedy = "give TcpStore::port() of the server"});
}

void check_secret(const TcpStoreOptions& options, const std::vector<Endpoint>& endpoints) {
  const bool is_local = std::all_of(endpoints.begin(), endpoints.end(), [](const Endpoint& one) {
    return one.address().is_loopback();
  });
  if (options.token.empty() && !is_local)
    throw UsageError(
        fmt::format("a store at '{}' can be reached by others, but has no token", options.host),
        {.remedy = "give all processes the token that TcpStore::make_token() gave one of them"});
}

}  // namespace

struct TcpStore::Impl {
  explicit Impl(const TcpStoreOptions& options) {
    std::vector<Endpoint> endpoints = resolve(options);
    check_secret(options, endpoints);
    const Token token = options.token.empty() ? Token() : Token::parse(options.token);
    if (options.is_server) {
      server.reset(new StoreServer(endpoints[0], token));
      endpoints = {reachable(server->endpoint())};
    }
    port = endpoints[0].port();
    client.reset(new StoreClient(std::move(endpoints), token, options.timeout));
  }

  /// A server that listens at all addresses is reached at the loopback by its own process.
  static Endpoint reachable(const Endpoint& listens) {
    if (!listens.address().is_unspecified()) return listens;
    if (listens.address().is_v6()) return {asio::ip::address_v6::loopback(), listens.port()};
    return {asio::ip::address_v4::loopback(), listens.port()};
  }

  UniqueHere<StoreServer> server;  // outlives its client
  UniqueHere<StoreClient> client;
  int port = 0;
};

TcpStore::TcpStore(const TcpStoreOptions& options) {
  check_options(options);
  set_timeout(options.timeout);
  impl_ = std::make_unique<Impl>(options);
}

TcpStore::~TcpStore() = default;

std::string TcpStore::make_token() { return Token::random().text(); }

int TcpStore::port() const { return impl_->port; }

namespace {

/// Calls that wait for nothing but the server.
StoreReply ask(StoreClient& client, StoreRequest request, Timeout limit) {
  return client.call(std::move(request), Deadline::after(limit));
}

/// Calls that wait for keys.
StoreReply ask_and_wait(StoreClient& client, StoreRequest request, Deadline deadline) {
  if (deadline.is_never()) return client.call(std::move(request), deadline);
  const TimePoint now = std::chrono::steady_clock::now();
  request.wait_ns = std::max(deadline.when() - now, Duration{}).count();
  return client.call(std::move(request), Deadline::after(Duration(request.wait_ns) + grace, now));
}

}  // namespace

void TcpStore::do_set(const std::string& key, Value value) {
  ask(*impl_->client, {.call = StoreCall::set, .keys = {key}, .value = std::move(value)},
      timeout());
}

std::optional<Store::Value> TcpStore::do_get(const std::string& key, Deadline deadline) {
  StoreReply reply =
      ask_and_wait(*impl_->client, {.call = StoreCall::get, .keys = {key}}, deadline);
  if (reply.outcome == StoreOutcome::missing) return std::nullopt;
  return std::move(reply.value);
}

std::int64_t TcpStore::do_add(const std::string& key, std::int64_t delta) {
  return ask(*impl_->client, {.call = StoreCall::add, .keys = {key}, .delta = delta}, timeout())
      .number;
}

Store::Value TcpStore::do_compare_set(const std::string& key, Value expected, Value desired) {
  return ask(*impl_->client,
             {.call = StoreCall::compare_set,
              .keys = {key},
              .value = std::move(desired),
              .expected = std::move(expected)},
             timeout())
      .value;
}

bool TcpStore::do_delete(const std::string& key) {
  return ask(*impl_->client, {.call = StoreCall::erase, .keys = {key}}, timeout()).number != 0;
}

bool TcpStore::do_check(const std::vector<std::string>& keys) {
  return ask(*impl_->client, {.call = StoreCall::check, .keys = keys}, timeout()).number != 0;
}

std::vector<std::string> TcpStore::do_wait(const std::vector<std::string>& keys,
                                           Deadline deadline) {
  return ask_and_wait(*impl_->client, {.call = StoreCall::wait, .keys = keys}, deadline).texts;
}

std::int64_t TcpStore::do_num_keys() {
  return ask(*impl_->client, {.call = StoreCall::num_keys}, timeout()).number;
}

}  // namespace hymn
