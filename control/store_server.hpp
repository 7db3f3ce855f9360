// The serving side of a TcpStore: a thread of its own, on which all that is done is done.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <thread>

#include "control/link_server.hpp"
#include "control/store_service.hpp"

namespace hymn {

class StoreServer {
 public:
  /// Throws NetworkError where nothing can listen there.
  StoreServer(const Endpoint& listen, const Token& token);
  /// Answers on their way are still sent.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  Endpoint endpoint() const { return link_.endpoint(); }

 private:
  LinkServer::Handlers handlers();
  void hear(int client, std::span<const std::byte> message);
  void set_timer();

  asio::io_context io_;
  asio::steady_timer timer_{io_};
  bool is_closing_ = false;  ///< nothing may keep the thread from its end
  StoreService service_;
  LinkServer link_;
  std::thread thread_;
};

/// What both ends of a store's link allow.
LinkLimits store_limits();

}  // namespace hymn
