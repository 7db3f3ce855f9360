// The asking side of a TcpStore: calls of any threads, and one thread that keeps the connection.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/own_process.hpp"
#include "control/link_client.hpp"
#include "control/store_protocol.hpp"

namespace hymn {

class StoreClient {
 public:
  /// Waits until the server is there. Throws NetworkError when it is not in time or refuses us.
  StoreClient(std::vector<Endpoint> candidates, const Token& token, Timeout limit);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Sends it and waits for the reply, which comes at once but for what waits for keys. Throws
  /// NetworkError when the server is lost, or does not answer by the deadline; StoreError where the
  /// server reports an error. Any thread.
  StoreReply call(StoreRequest request, Deadline deadline);

 private:
  struct Pending {
    std::optional<StoreReply> reply;
  };

  LinkClient::Handlers handlers();
  void hear(std::span<const std::byte> message);
  void lose(const std::string& why);
  void stop();
  StoreReply await(std::unique_lock<std::mutex>& lock, Pending& pending, Deadline deadline);
  [[noreturn]] void throw_lost() const;

  OwnProcess owner_;
  asio::io_context io_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool connected_ = false;
  std::optional<std::string> lost_;  ///< why
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;
  LinkClient link_;
  std::thread thread_;
};

}  // namespace hymn
