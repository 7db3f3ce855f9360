#include "control/store_client.hpp"

#include <fmt/format.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <utility>

#include "base/helper_thread.hpp"
#include "control/run_handlers.hpp"
#include "control/store_server.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

LinkClientOptions options_of(std::vector<Endpoint> candidates, const Token& token) {
  LinkClientOptions options;
  options.token = token;
  options.candidates = std::move(candidates);
  options.gives_up_when_refused = true;
  options.service = "store";
  options.limits = store_limits();
  return options;
}

/// Until `done` or the deadline.
template <class Done>
void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                Deadline deadline, Done done) {
  if (deadline.is_never())
    changed.wait(lock, done);
  else
    changed.wait_until(lock, deadline.when(), done);
}

}  // namespace

StoreClient::StoreClient(std::vector<Endpoint> candidates, const Token& token, Timeout limit)
    : link_(io_, options_of(std::move(candidates), token), handlers()) {
  // It ends when nothing is to be done any more: after connect() has failed, or close().
  link_.connect(0, limit.is_none() ? Duration::max() : limit.duration());
  thread_ = start_helper_thread(
      "hymn-store", [this] { run_handlers(io_, {}); },
      [this](std::string_view why) { lose(std::string(why)); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return connected_ || lost_; });
  if (!lost_) return;
  lock.unlock();
  stop();
  throw_lost();
}

StoreClient::~StoreClient() { stop(); }

void StoreClient::stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] { link_.close(); });
  thread_.join();
}

LinkClient::Handlers StoreClient::handlers() {
  return {.connected =
              [this](std::size_t) {
                const std::lock_guard lock(mutex_);
                connected_ = true;
                changed_.notify_all();
              },
          .message = [this](std::span<const std::byte> message) { hear(message); },
          .lost = [this](const std::string& why) { lose(why); }};
}

void StoreClient::hear(std::span<const std::byte> message) {
  try {
    StoreReply reply = unpack_reply(message);
    const std::lock_guard lock(mutex_);
    // Whoever asked may have stopped waiting.
    const auto found = pending_.find(reply.id);
    if (found == pending_.end()) return;
    found->second->reply = std::move(reply);
    changed_.notify_all();
  } catch (const std::exception& error) {
    link_.close();
    lose(error.what());
  }
}

void StoreClient::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  lost_ = why;
  changed_.notify_all();
}

void StoreClient::throw_lost() const {
  throw NetworkError("the server of the store: " + *lost_,
                     {.remedy = "check that the process that serves the store is alive and can be "
                                "reached, and that all were given the same address and token"});
}

StoreReply StoreClient::call(StoreRequest request, Deadline deadline) {
  if (!owner_.is_this())
    throw UsageError("this process is a child made by fork(): the store belongs to its parent",
                     {.remedy = "make a TcpStore in the child"});
  const auto pending = std::make_shared<Pending>();
  std::unique_lock lock(mutex_);
  if (lost_) throw_lost();
  const std::uint64_t id = next_id_++;
  request.id = id;
  Bytes message = pack(request);
  if (message.size() > most_store_message_bytes())
    throw UsageError("a store call names too many keys", {.remedy = "split it into several calls"});
  pending_[id] = pending;
  asio::post(io_, [this, message = std::move(message)] { link_.send(message); });
  try {
    StoreReply reply = await(lock, *pending, deadline);
    pending_.erase(id);
    return reply;
  } catch (...) {
    pending_.erase(id);
    throw;
  }
}

StoreReply StoreClient::await(std::unique_lock<std::mutex>& lock, Pending& pending,
                              Deadline deadline) {
  wait_until(changed_, lock, deadline, [&] { return pending.reply || lost_; });
  if (!pending.reply && lost_) throw_lost();
  if (!pending.reply)
    throw NetworkError("the server of the store does not answer in time",
                       {.remedy = "check that the process that serves it has not been stopped"});
  if (pending.reply->outcome == StoreOutcome::error)
    throw StoreError(pending.reply->texts[0], {.remedy = pending.reply->texts[1]});
  return *std::move(pending.reply);
}

}  // namespace hymn
