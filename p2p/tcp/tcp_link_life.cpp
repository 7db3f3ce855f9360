// How a link comes to its connection, loses it, makes it again, and gives up.

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "hymn/error.hpp"
#include "p2p/tcp/tcp_link.hpp"

namespace hymn::tcp {
namespace {

constexpr Duration first_pause = std::chrono::milliseconds(20);
constexpr Duration longest_pause = std::chrono::milliseconds(500);
// Whoever has made a connection makes the next one; the other only if that does not.
constexpr int pauses_of_the_other = 4;
// Who has not looked for long has not tried for long, either.
constexpr int least_attempts = 5;
// What one that has ended has said last may still have to be read.
constexpr Duration way_of_last_words = std::chrono::milliseconds(200);
// What has been lost is lost again before long, most likely.
constexpr Duration troubled_for = std::chrono::seconds(1);

/// By the other end; there may be something to read all the same.
bool is_closed_there(int socket) {
  pollfd one{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&one, 1, 0) > 0;
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Link::introduce(const Address& address, const Nonce& nonce) {
  address_ = address;
  contact_ = {.from = site_.rank, .to = rank_, .nonce_of_listener = nonce};
}

// --- Its beginning ---

void Link::connect(TimePoint now) {
  ++attempts_;
  began_ = now;
  is_mine_ = true;
  lacks_descriptors_ = false;
  try {
    contact_.turn = ++turn_;
    contact_.nonce = random_nonce();
    socket_ = begin_connect(*address_);
  } catch (const ResourceError& error) {
    lacks_descriptors_ = true;
    return lose(error.problem());
  } catch (const NetworkError& error) {
    return lose(error.problem());
  }
  state_ = State::connecting;
  watched_ = EPOLLIN | EPOLLOUT;
  if (!poller_.add(socket_.number(), Owner::link, static_cast<std::uint32_t>(rank_), watched_))
    lose("no memory for a connection");
}

void Link::end_connecting() {
  if (const int problem = end_of_connect(socket_.number()); problem != 0)
    return lose(std::generic_category().message(problem));
  begin(hello_of(site_.token, contact_));
}

void Link::meet(Descriptor socket, const Contact& contact) {
  if (outlet_.has_failed()) throw NetworkError("it was given up");
  if (contact.stream != 0) return join(std::move(socket), contact);
  if (contact.turn <= heard_turn_) throw NetworkError("a hello was said a second time");
  heard_turn_ = contact.turn;
  turn_ = std::max(turn_, contact.turn);
  const bool goes_before = goes_before_mine(contact);
  if (state_ != State::up || !is_mine_ || (goes_before && !is_closed_there(socket.number())))
    return adopt(std::move(socket), contact);
  if (is_welcome_ && !goes_before) throw NetworkError("it was made before the one that is there");
  suitor_ = {
      .socket = std::move(socket), .contact = contact, .since = std::chrono::steady_clock::now()};
}

// One with the same turn that comes when the own one is welcome has been given up for that.
bool Link::goes_before_mine(const Contact& contact) const {
  if (contact.turn != contact_.turn) return contact.turn > contact_.turn;
  return !is_welcome_ && rank_ < site_.rank;
}

void Link::adopt(Descriptor socket, const Contact& contact) {
  end_connection();
  suitor_.reset();
  is_mine_ = false;
  socket_ = std::move(socket);
  watched_ = EPOLLIN;
  if (!poller_.add(socket_.number(), Owner::link, static_cast<std::uint32_t>(rank_), watched_))
    return lose("no memory for a connection");
  be_welcome();
  try {
    begin(welcome_of(site_.token, contact, site_.limits.streams));
  } catch (const std::bad_alloc&) {
    return lose("no memory for what is to be said");
  }
  flush();
}

// Of the connection that there is, which the peer has made: no later one has been heard of then.
void Link::join(Descriptor socket, const Contact& contact) {
  const bool is_of_this =
      state_ == State::up && !is_mine_ && why_no_writing_.empty() && contact.turn == heard_turn_;
  if (!is_of_this) throw NetworkError("it is a stream of a connection that is not there");
  streams_.join(std::move(socket), contact);
  flush();
}

void Link::make_streams_for(std::uint64_t bytes) {
  if (bytes < worth_streams || !is_mine_ || most_streams_ < 2 || !why_no_writing_.empty()) return;
  streams_.make(*address_, contact_, most_streams_);
}

void Link::begin(std::span<const std::byte> greeting) {
  state_ = State::up;
  inlet_.connected(greeting);
  outlet_.connected();
}

void Link::be_welcome() {
  is_welcome_ = true;
  was_there_ = true;
  // All that the peer has said on one before is said again on this.
  if (suitor_ && !goes_before_mine(suitor_->contact)) suitor_.reset();
  forget_trouble();
}

void Link::note_trouble(TimePoint now) {
  trouble_since_ = now;
  attempts_ = 0;
  retry_at_ = now;
}

void Link::forget_trouble() {
  trouble_since_.reset();
  attempts_ = 0;
  pause_ = {};
}

// --- Its end ---

void Link::end_connection() {
  if (socket_) poller_.remove(socket_.number());
  socket_ = {};
  streams_.close();
  is_welcome_ = false;
  most_streams_ = 1;
  reader_.reset();
  why_no_writing_.clear();
  outlet_.disconnected();
  inlet_.disconnected();
}

// The peer is to see that, too; but its last words may still be on their way by the main one, which
// is read to its end therefore.
void Link::lose_stream(std::string_view why) {
  streams_.lose(why);
  if (!why_no_writing_.empty() || state_ != State::up) return;
  try {
    why_no_writing_ = why;
  } catch (const std::bad_alloc&) {
    why_no_writing_ = "a stream";  // short enough to need no memory
  }
  ::shutdown(socket_.number(), SHUT_WR);
  watch();
}

// Also for want of memory. `why` may be one that ends with the connection.
void Link::lose(std::string_view why) {
  try {
    why_ = why;
  } catch (const std::bad_alloc&) {
    why_ = "no memory";  // so short that it takes none
  }
  end_connection();
  state_ = State::lost;
  const TimePoint now = std::chrono::steady_clock::now();
  lost_at_ = now;
  if (!trouble_since_) note_trouble(now);
  pause_ = std::clamp(2 * pause_, first_pause, longest_pause);
  retry_at_ = now + (is_mine_ ? pause_ : pauses_of_the_other * pause_);
  if (auto suitor = std::exchange(suitor_, std::nullopt))
    adopt(std::move(suitor->socket), suitor->contact);
}

bool Link::is_restless() const {
  return state_ == State::connecting || state_ == State::lost || suitor_ || streams_.is_restless();
}

// Also where there is nothing to say: who waits for a message of this rank's must see that it is
// still there.
void Link::look_after(TimePoint now) {
  streams_.look_after(now);
  const auto is_long_ago = [&](TimePoint when) { return now - when > site_.limits.connecting; };
  const bool somebody_waits = suitor_ && !is_welcome_ && is_long_ago(suitor_->since);
  if (state_ == State::connecting ? is_long_ago(began_) : somebody_waits)
    lose("nobody answers there");
  if (state_ != State::lost) return;
  if (has_tried_long(now)) return give_up();
  if (now >= retry_at_ && address_) connect(now);
}

// A peer that is only busy may lose one connection after the other, each a while after it was made.
bool Link::has_tried_long(TimePoint now) const {
  if (dead_since_)
    return now - std::max(*dead_since_, trouble_since_.value_or(*dead_since_)) > way_of_last_words;
  return (attempts_ >= least_attempts || !address_) &&
         now - *trouble_since_ > site_.limits.patience;
}

// The next message begins anew.
void Link::give_up() {
  state_ = State::idle;
  if (outlet_.has_something_to_say()) outlet_.fail(error());
}

bool Link::is_lost(TimePoint now) const {
  const bool may_be_lost = is_dead() || (was_there_ && trouble_since_);
  return state_ != State::up && may_be_lost && has_tried_long(now);
}

void Link::note_dead(TimePoint now) {
  if (!dead_since_) dead_since_ = now;
}

bool Link::is_troubled(TimePoint now) const {
  return is_restless() || now - lost_at_ < troubled_for;
}

std::exception_ptr Link::error() const {
  const auto since = trouble_since_ ? *trouble_since_ : dead_since_.value_or(TimePoint{});
  const std::string problem = without_connection(std::chrono::steady_clock::now() - since, why_);
  if (lacks_descriptors_)
    return std::make_exception_ptr(
        ResourceError(problem, {.remedy = "raise the limit of open files (ulimit -n)"}));
  return std::make_exception_ptr(NetworkError(
      problem,
      {.remedy = "see whether that rank still runs, and whether its host can be reached by the "
                 "interface that HYMN_INTERFACE names",
       .missing = {rank_}}));
}

std::string Link::without_connection(Duration time, std::string_view why) const {
  const std::string place = address_ ? " at " + address_->text() : "";
  return fmt::format("no connection to rank {}{} for {:.1f} s: {}", rank_, place, seconds(time),
                     why);
}

// One that is up counts when whoever is there has said that it is the right one.
std::string Link::trouble(TimePoint now) const {
  if (state_ == State::up && is_welcome_) return {};
  if (trouble_since_) return without_connection(now - *trouble_since_, why_);
  if (state_ != State::connecting) return {};
  return without_connection(now - began_, "nobody has answered there yet");
}

bool Link::is_drained() const {
  if (state_ == State::connecting) return !outlet_.has_something_to_say();
  if (state_ != State::up) return true;
  if (!streams_.is_drained()) return false;
  int waiting = 0;
  return !wants_to_write() && (::ioctl(socket_.number(), SIOCOUTQ, &waiting) != 0 || waiting == 0);
}

void Link::close() {
  end_connection();
  suitor_.reset();
  state_ = State::idle;
}

// The poller is the parent's, and what was being changed when it forked may be half done.
void Link::close_in_child() {
  socket_ = {};
  streams_.close_in_child();
  suitor_.reset();
  state_ = State::idle;
}

void Link::cut(std::uint64_t stream) const {
  if (stream != 0) return streams_.cut(stream);
  if (socket_) ::shutdown(socket_.number(), SHUT_RDWR);
  if (suitor_) ::shutdown(suitor_->socket.number(), SHUT_RDWR);
}

}  // namespace hymn::tcp
