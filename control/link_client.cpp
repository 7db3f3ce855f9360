#include "control/link_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <utility>

#include "control/handshake.hpp"
#include "control/stream.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr Duration first_pause = std::chrono::milliseconds(50);
constexpr Duration longest_pause = std::chrono::seconds(1);

}  // namespace

class LinkClient::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, LinkClientOptions options, Handlers handlers)
      : io_(io), options_(std::move(options)), handlers_(std::move(handlers)), timer_(io) {}

  void connect(std::size_t first_candidate, Duration limit);
  bool is_connected() const { return connected_; }
  bool send(std::span<const std::byte> message);
  void close(bool flush);

 private:
  /// Calls `action` unless this attempt, and with it all that belonged to it, has been given up.
  template <class Action>
  auto in_this_attempt(Action action) {
    return [weak = weak_from_this(), attempt = attempt_, action](const auto&... given) {
      const auto self = weak.lock();
      if (self && self->attempt_ == attempt) action(*self, given...);
    };
  }

  Duration time_left() const { return until_.when() - std::chrono::steady_clock::now(); }
  void try_candidate();
  void start_handshake(asio::ip::tcp::socket& socket);
  void hear_handshake(const Bytes& frame);
  void hear_challenge(const Bytes& frame);
  void be_connected();
  void fail_candidate(const std::string& why);
  void pause_and_start_over();
  void give_up();
  void drop();

  asio::io_context& io_;
  LinkClientOptions options_;
  Handlers handlers_;
  asio::steady_timer timer_;
  Deadline until_ = Deadline::never();
  Duration limit_{};
  Duration pause_ = first_pause;
  std::string last_failure_;
  std::uint64_t attempt_ = 0;
  std::size_t first_ = 0;
  std::size_t candidate_ = 0;
  std::shared_ptr<asio::ip::tcp::socket> connecting_;
  std::shared_ptr<ClientHandshake> handshake_;
  std::shared_ptr<Stream> stream_;
  bool challenged_ = false;
  bool connected_ = false;
  bool refused_ = false;  ///< and that is the end
};

void LinkClient::Impl::connect(std::size_t first_candidate, Duration limit) {
  if (first_candidate >= options_.candidates.size())
    throw UsageError(fmt::format("there is no candidate {} among {} that may serve",
                                 first_candidate, options_.candidates.size()));
  drop();
  limit_ = limit;
  until_ = Deadline::after(limit);
  pause_ = first_pause;
  first_ = first_candidate;
  candidate_ = first_candidate;
  refused_ = false;
  // Not at once: a handler must not be called from within this call.
  asio::post(io_, in_this_attempt([](Impl& self) { self.try_candidate(); }));
}

// Gives up all that is under way: what still arrives for it comes to nobody.
void LinkClient::Impl::drop() {
  ++attempt_;
  timer_.cancel();
  if (connecting_) {
    asio::error_code ignored;
    connecting_->close(ignored);
  }
  if (stream_) stream_->close();
  connecting_ = nullptr;
  stream_ = nullptr;
  handshake_ = nullptr;
  challenged_ = false;
  connected_ = false;
}

void LinkClient::Impl::try_candidate() {
  drop();
  const Endpoint where = options_.candidates[candidate_];
  try {
    connecting_ = std::make_shared<asio::ip::tcp::socket>(open_socket(io_, where.protocol()));
  } catch (const ResourceError& error) {
    return fail_candidate(error.problem());
  }
  timer_.expires_after(until_.is_never() ? options_.per_candidate_limit
                                         : std::min(options_.per_candidate_limit,
                                                    std::max(time_left(), Duration{})));
  timer_.async_wait(in_this_attempt([](Impl& self, asio::error_code cancelled) {
    // It may be over, and on its way here, when the connection is made: then nobody can cancel it.
    if (!cancelled && !self.connected_) self.fail_candidate("no answer in time");
  }));
  // The socket lives until its operation has ended, whatever becomes of this attempt.
  connecting_->async_connect(
      where, [held = connecting_, done = in_this_attempt([](Impl& self, asio::error_code error) {
                                    if (error) return self.fail_candidate(error.message());
                                    self.start_handshake(*self.connecting_);
                                  })](asio::error_code error) { done(error); });
}

void LinkClient::Impl::start_handshake(asio::ip::tcp::socket& socket) {
  tune_socket(socket, options_.limits.silence);
  handshake_ = std::make_shared<ClientHandshake>(options_.token, options_.service, options_.rank);
  stream_ = std::make_shared<Stream>(std::move(socket), options_.limits.queue_bytes);
  connecting_ = nullptr;
  stream_->start(
      {.frame = in_this_attempt([](Impl& self, const Bytes& frame) { self.hear_handshake(frame); }),
       .closed =
           in_this_attempt([](Impl& self, const std::string& why) { self.fail_candidate(why); })});
}

void LinkClient::Impl::hear_handshake(const Bytes& frame) {
  try {
    if (!challenged_) return hear_challenge(frame);
    handshake_->check(frame);
  } catch (const NetworkError& error) {
    refused_ = options_.gives_up_when_refused;
    return fail_candidate(error.problem());
  }
  be_connected();
}

void LinkClient::Impl::hear_challenge(const Bytes& frame) {
  stream_->send(handshake_->hello(frame));
  challenged_ = true;
}

void LinkClient::Impl::be_connected() {
  timer_.cancel();
  connected_ = true;
  stream_->set_frame_limit(options_.limits.frame_bytes);
  stream_->set_events(
      {.frame = in_this_attempt([](Impl& self, const Bytes& message) {
         if (self.handlers_.message) self.handlers_.message(message);
       }),
       .closed = in_this_attempt([](Impl& self, const std::string& why) {
         const std::string where = to_string(self.options_.candidates[self.candidate_]);
         self.drop();
         if (self.handlers_.lost)
           self.handlers_.lost(fmt::format("the connection to {} was lost: {}", where, why));
       })});
  if (handlers_.connected) handlers_.connected(candidate_);
}

void LinkClient::Impl::fail_candidate(const std::string& why) {
  const std::string where = to_string(options_.candidates[candidate_]);
  last_failure_ = fmt::format("to {}: {}", where, why);
  if (options_.log) options_.log("cannot connect " + last_failure_);
  drop();
  if (refused_ || until_.expired(std::chrono::steady_clock::now()))
    give_up();
  else if (++candidate_ < options_.candidates.size())
    try_candidate();
  else
    pause_and_start_over();
}

void LinkClient::Impl::give_up() {
  drop();
  if (!handlers_.lost) return;
  if (refused_) return handlers_.lost("cannot connect " + last_failure_);
  handlers_.lost(fmt::format("no connection within {:.1f} s; the last attempt, {}",
                             std::chrono::duration<double>(limit_).count(), last_failure_));
}

void LinkClient::Impl::pause_and_start_over() {
  candidate_ = first_;
  const Duration pause = std::exchange(pause_, std::min(2 * pause_, longest_pause));
  // An attempt without any time left would say nothing but that.
  const bool is_last = !until_.is_never() && time_left() <= pause;
  timer_.expires_after(is_last ? std::max(time_left(), Duration{}) : pause);
  timer_.async_wait(in_this_attempt([is_last](Impl& self, asio::error_code cancelled) {
    if (cancelled) return;
    if (is_last)
      self.give_up();
    else
      self.try_candidate();
  }));
}

bool LinkClient::Impl::send(std::span<const std::byte> message) {
  if (message.size() > options_.limits.frame_bytes)
    throw UsageError(
        fmt::format("a message of {} bytes is larger than the {} that a connection carries",
                    message.size(), options_.limits.frame_bytes),
        {.remedy = "send it in parts"});
  return connected_ && stream_->send(message);
}

void LinkClient::Impl::close(bool flush) {
  if (flush && connected_) stream_->finish(options_.limits.farewell);
  if (flush && connected_) stream_ = nullptr;
  drop();
}

LinkClient::LinkClient(asio::io_context& io, LinkClientOptions options, Handlers handlers)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(handlers))) {}

LinkClient::~LinkClient() { impl_->close(false); }

void LinkClient::connect(std::size_t first_candidate, Duration limit) {
  impl_->connect(first_candidate, limit);
}
bool LinkClient::is_connected() const { return impl_->is_connected(); }
bool LinkClient::send(std::span<const std::byte> message) { return impl_->send(message); }
void LinkClient::close() { impl_->close(true); }

}  // namespace hymn
