#include "control/link_server.hpp"

#include <fmt/format.h>

#include <asio/steady_timer.hpp>
#include <cerrno>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "control/handshake.hpp"
#include "control/stream.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr int accepts_in_a_row = 64;
constexpr Duration pause_after_failure = std::chrono::milliseconds(100);
constexpr std::size_t most_complaints = 64;

/// A connection that has not proved anything yet.
struct Stranger {
  Stranger(asio::io_context& io, asio::ip::tcp::socket socket, const LinkServerOptions& options,
           std::string from)
      : stream(std::make_shared<Stream>(std::move(socket), options.limits.queue_bytes)),
        patience(io),
        handshake(options.token, options.service),
        address(std::move(from)) {}

  std::shared_ptr<Stream> stream;
  asio::steady_timer patience;
  ServerHandshake handshake;
  std::string address;
};

}  // namespace

class LinkServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, LinkServerOptions options, Handlers handlers)
      : io_(io),
        options_(std::move(options)),
        handlers_(std::move(handlers)),
        acceptor_(listen_at(io, options_.listen)),
        endpoint_(acceptor_.local_endpoint()),
        pause_(io) {}

  void accept();
  void close(bool flush);
  Endpoint endpoint() const { return endpoint_; }
  bool is_here(int rank) const { return members_.contains(rank); }
  void disconnect(int rank);
  bool send(int rank, std::span<const std::byte> message);
  void send_to_all(std::span<const std::byte> message);

 private:
  using Guest = std::shared_ptr<Stranger>;

  void accept_all();
  void admit(asio::ip::tcp::socket socket);
  void hear(const Guest& guest, const Bytes& hello);
  int rank_for(int claimed) const;
  void join(const Guest& guest, int rank, const Bytes& welcome);
  Stream::Events events_of(int rank);
  void dismiss(const Guest& guest);
  void dismiss_oldest();
  void raise_alarm(const asio::error_code& error);  ///< for want of descriptors
  void complain(std::string_view kind, const Guest& guest, std::string_view what);
  void check_size(std::span<const std::byte> message) const;

  asio::io_context& io_;
  LinkServerOptions options_;
  Handlers handlers_;
  asio::ip::tcp::acceptor acceptor_;
  Endpoint endpoint_;
  asio::steady_timer pause_;
  std::list<Guest> strangers_;  ///< the oldest first
  std::map<int, std::shared_ptr<Stream>> members_;
  std::set<std::string> complaints_;
  bool has_raised_alarm_ = false;
};

void LinkServer::Impl::accept() {
  acceptor_.async_wait(asio::socket_base::wait_read,
                       [weak = weak_from_this()](asio::error_code error) {
                         const auto self = weak.lock();
                         if (self && !error && self->acceptor_.is_open()) self->accept_all();
                       });
}

// So many at most: those that are here are heard in between.
void LinkServer::Impl::accept_all() {
  asio::error_code error;
  for (int i = 0; i < accepts_in_a_row && !error; ++i) {
    auto socket = accept_one(io_, acceptor_, error);
    if (socket) admit(std::move(*socket));
  }
  if (!error || error == asio::error::would_block || error == asio::error::try_again ||
      error == asio::error::connection_aborted || error == asio::error::interrupted)
    return accept();
  // Without descriptors, say, the connection keeps waiting: make room, and do not try at once.
  raise_alarm(error);
  dismiss_oldest();
  pause_.expires_after(pause_after_failure);
  pause_.async_wait([weak = weak_from_this()](asio::error_code cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled && self->acceptor_.is_open()) self->accept();
  });
}

void LinkServer::Impl::admit(asio::ip::tcp::socket socket) {
  asio::error_code error;
  const Endpoint from = socket.remote_endpoint(error);
  if (error) return;  // gone already
  tune_socket(socket, options_.limits.silence);
  const auto missing =
      options_.gives_ranks ? 0 : static_cast<std::size_t>(options_.size) - members_.size();
  while (strangers_.size() >= options_.limits.strangers + missing && !strangers_.empty())
    dismiss_oldest();

  const auto guest =
      std::make_shared<Stranger>(io_, std::move(socket), options_, from.address().to_string());
  strangers_.push_back(guest);
  const std::weak_ptr<Impl> weak = weak_from_this();
  const std::weak_ptr<Stranger> stranger = guest;
  const auto when_both_live = [weak, stranger](auto action) {
    const auto self = weak.lock();
    const auto the_guest = stranger.lock();
    if (self && the_guest) action(*self, the_guest);
  };
  guest->stream->start({.frame =
                            [when_both_live](const Bytes& hello) {
                              when_both_live(
                                  [&](Impl& self, const Guest& who) { self.hear(who, hello); });
                            },
                        .closed =
                            [when_both_live](const std::string& why) {
                              when_both_live([&](Impl& self, const Guest& who) {
                                self.complain("closed", who, why);
                                self.dismiss(who);
                              });
                            }});
  guest->stream->send(guest->handshake.challenge());
  guest->patience.expires_after(options_.limits.handshake);
  guest->patience.async_wait([when_both_live](asio::error_code cancelled) {
    if (cancelled) return;
    when_both_live([](Impl& self, const Guest& who) {
      self.complain("slow", who, "it has not finished the handshake in time");
      self.dismiss(who);
    });
  });
}

void LinkServer::Impl::hear(const Guest& guest, const Bytes& hello) {
  ServerHandshake::Guest known;
  int rank = -1;
  try {
    known = guest->handshake.accept(hello);
    rank = rank_for(known.rank);
  } catch (const NetworkError& error) {
    complain("hello", guest, error.problem());
    guest->stream->send(refusal());  // as far as it goes out at once
    return dismiss(guest);
  }
  join(guest, rank, known.welcome);
}

int LinkServer::Impl::rank_for(int claimed) const {
  if (!options_.gives_ranks) {
    if (claimed < 0 || claimed >= options_.size)
      throw NetworkError(
          fmt::format("it claims to be rank {} of a job of {} ranks", claimed, options_.size));
    return claimed;
  }
  int rank = 0;
  for (const auto& [taken, stream] : members_) {
    if (taken != rank) break;
    ++rank;
  }
  if (rank >= options_.size)
    throw NetworkError(fmt::format("all {} places are taken", options_.size));
  return rank;
}

void LinkServer::Impl::join(const Guest& guest, int rank, const Bytes& welcome) {
  const auto stream = guest->stream;
  guest->patience.cancel();
  strangers_.remove(guest);
  if (const auto old = members_.find(rank); old != members_.end()) old->second->close();
  members_[rank] = stream;
  stream->set_events(events_of(rank));
  stream->set_frame_limit(options_.limits.frame_bytes);
  stream->send(welcome);
  if (handlers_.joined) handlers_.joined(rank);
}

Stream::Events LinkServer::Impl::events_of(int rank) {
  return {.frame =
              [weak = weak_from_this(), rank](const Bytes& message) {
                const auto self = weak.lock();
                if (self && self->handlers_.message) self->handlers_.message(rank, message);
              },
          .closed =
              [weak = weak_from_this(), rank](const std::string& why) {
                const auto self = weak.lock();
                if (!self) return;
                self->members_.erase(rank);
                if (self->handlers_.lost) self->handlers_.lost(rank, why);
              }};
}

void LinkServer::Impl::dismiss(const Guest& guest) {
  const Guest kept = guest;
  kept->patience.cancel();
  kept->stream->close();
  strangers_.remove(kept);
}

void LinkServer::Impl::dismiss_oldest() {
  if (strangers_.empty()) return;
  const Guest oldest = strangers_.front();
  complain("crowd", oldest, "too many others that have not finished the handshake came after it");
  dismiss(oldest);
}

void LinkServer::Impl::raise_alarm(const asio::error_code& error) {
  const LinkLog& tell = options_.alarm ? options_.alarm : options_.log;
  const bool is_known = error.value() == EMFILE || error.value() == ENFILE;
  if (!is_known || !tell || std::exchange(has_raised_alarm_, true)) return;
  tell(
      fmt::format("who connects to the {} at {} has to wait: {}; remedy: raise the limit of open "
                  "files (ulimit -n)",
                  options_.service, to_string(endpoint_), error.message()));
}

// Strangers may come for ever: what is told about them must not.
void LinkServer::Impl::complain(std::string_view kind, const Guest& guest, std::string_view what) {
  if (!options_.log || complaints_.size() >= most_complaints) return;
  if (!complaints_.insert(fmt::format("{} {}", kind, guest->address)).second) return;
  options_.log(fmt::format("refused a connection from {}: {}", guest->address, what));
  if (complaints_.size() == most_complaints)
    options_.log("refused so many connections that no others will be reported");
}

void LinkServer::Impl::check_size(std::span<const std::byte> message) const {
  if (message.size() > options_.limits.frame_bytes)
    throw UsageError(
        fmt::format("a message of {} bytes is larger than the {} that a connection carries",
                    message.size(), options_.limits.frame_bytes),
        {.remedy = "send it in parts"});
}

bool LinkServer::Impl::send(int rank, std::span<const std::byte> message) {
  check_size(message);
  const auto member = members_.find(rank);
  return member != members_.end() && member->second->send(message);
}

void LinkServer::Impl::send_to_all(std::span<const std::byte> message) {
  check_size(message);
  for (const auto& [rank, stream] : members_) stream->send(message);
}

void LinkServer::Impl::disconnect(int rank) {
  const auto member = members_.find(rank);
  if (member == members_.end()) return;
  const auto stream = member->second;
  members_.erase(member);
  stream->close();
}

void LinkServer::Impl::close(bool flush) {
  asio::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const Guest& guest : std::exchange(strangers_, {})) {
    guest->patience.cancel();
    guest->stream->close();
  }
  for (const auto& [rank, stream] : std::exchange(members_, {})) {
    if (flush)
      stream->finish(options_.limits.farewell);
    else
      stream->close();
  }
}

LinkServer::LinkServer(asio::io_context& io, LinkServerOptions options, Handlers handlers)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(handlers))) {
  impl_->accept();
}

LinkServer::~LinkServer() { impl_->close(false); }

Endpoint LinkServer::endpoint() const { return impl_->endpoint(); }
bool LinkServer::is_here(int rank) const { return impl_->is_here(rank); }
void LinkServer::disconnect(int rank) { impl_->disconnect(rank); }
bool LinkServer::send(int rank, std::span<const std::byte> message) {
  return impl_->send(rank, message);
}
void LinkServer::send_to_all(std::span<const std::byte> message) { impl_->send_to_all(message); }
void LinkServer::close() { impl_->close(true); }

}  // namespace hymn
