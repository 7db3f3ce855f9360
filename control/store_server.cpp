#include "control/store_server.hpp"

#include <asio/post.hpp>
#include <exception>

#include "base/helper_thread.hpp"
#include "base/log.hpp"
#include "control/run_handlers.hpp"

namespace hymn {
namespace {

constexpr int most_clients = 16384;
constexpr Duration tick = std::chrono::milliseconds(5);

}  // namespace

LinkLimits store_limits() {
  LinkLimits limits;
  limits.frame_bytes = most_store_message_bytes();
  limits.queue_bytes = 4 * most_store_message_bytes();
  limits.silence = std::chrono::seconds(30);
  return limits;
}

StoreServer::StoreServer(const Endpoint& listen, const Token& token)
    : service_([this](int client, const StoreReply& reply) { link_.send(client, pack(reply)); }),
      link_(io_,
            {.listen = listen,
             .token = token,
             .size = most_clients,
             .gives_ranks = true,
             .service = "store",
             .limits = store_limits(),
             .alarm = [](std::string_view text) { Logger().warning(text); }},
            handlers()),
      thread_(start_helper_thread(
          "hymn-store", [this] { run_handlers(io_, {}); }, [](std::string_view) {})) {}

StoreServer::~StoreServer() {
  asio::post(io_, [this] {
    is_closing_ = true;
    timer_.cancel();
    link_.close();
  });
  thread_.join();
}

LinkServer::Handlers StoreServer::handlers() {
  return {
      .joined = {},
      .message = [this](int client, std::span<const std::byte> message) { hear(client, message); },
      .lost = [this](int client, const std::string&) { service_.forget(client); }};
}

void StoreServer::hear(int client, std::span<const std::byte> message) {
  try {
    const bool waits =
        service_.handle(client, unpack_request(message), std::chrono::steady_clock::now());
    if (waits) set_timer();
  } catch (const std::exception&) {
    // Nonsense, or more than there is memory for: the client learns it by losing its connection.
    service_.forget(client);
    link_.disconnect(client);
  }
}

// Those that wait are looked at in ticks, however many they are.
void StoreServer::set_timer() {
  const Deadline next = service_.next_deadline();
  if (next.is_never()) return;
  timer_.expires_at(std::max(next.when(), std::chrono::steady_clock::now() + tick));
  timer_.async_wait([this](asio::error_code cancelled) {
    if (cancelled || is_closing_) return;
    service_.expire(std::chrono::steady_clock::now());
    set_timer();
  });
}

}  // namespace hymn
