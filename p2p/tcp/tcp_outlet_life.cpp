// How an outlet comes to its connection, loses it, makes it again, and gives up.

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "hymn/error.hpp"
#include "p2p/tcp/tcp_outlet.hpp"

namespace hymn::tcp {
namespace {

constexpr Duration first_pause = std::chrono::milliseconds(20);
constexpr Duration longest_pause = std::chrono::milliseconds(500);
// Who has not looked for long has not tried for long, either.
constexpr int least_attempts = 5;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Outlet::connect(TimePoint now) {
  ++contact_.turn;
  ++attempts_;
  began_ = now;
  lacks_descriptors_ = false;
  try {
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
  if (!poller_.add(socket_.number(), Owner::outlet, static_cast<std::uint32_t>(rank_), watched_))
    lose("no memory for a connection");
}

void Outlet::end_connecting() {
  if (const int problem = end_of_connect(socket_.number()); problem != 0)
    return lose(std::generic_category().message(problem));
  state_ = State::up;
  hello_ = hello_of(site_.token, contact_);
  hello_left_ = hello_.size();
  if (contact_.turn > 1) ask_again();
  flush();
}

// What was said of long messages may have been lost on the way here.
void Outlet::ask_again() {
  for (const auto& [number, message] : long_)
    say({.kind = FrameKind::ask, .value = number}, {}, nullptr);
}

bool Outlet::is_restless() const { return state_ == State::connecting || state_ == State::lost; }

// Also where there is nothing to say: who waits for a message of this rank's must see that it is
// still there.
void Outlet::look_after(TimePoint now) {
  if (state_ == State::connecting && now - began_ > site_.limits.connecting)
    lose("nobody answers there");
  if (state_ != State::lost) return;
  if (attempts_ >= least_attempts && now - *trouble_since_ > site_.limits.patience)
    return has_something_to_say() ? fail() : forget_trouble();
  if (now >= retry_at_) connect(now);
}

// The next message begins anew.
void Outlet::forget_trouble() {
  state_ = State::idle;
  trouble_since_.reset();
  attempts_ = 0;
  pause_ = {};
}

void Outlet::note_trouble(TimePoint now) {
  trouble_since_ = now;
  attempts_ = 0;
  retry_at_ = now;
}

void Outlet::lose(const std::string& why) {
  if (socket_) poller_.remove(socket_.number());
  socket_ = {};
  const TimePoint now = std::chrono::steady_clock::now();
  if (!trouble_since_) note_trouble(now);
  pause_ = std::clamp(2 * pause_, first_pause, longest_pause);
  retry_at_ = now + pause_;
  why_ = why;
  state_ = State::lost;
  hello_left_ = 0;
  next_ = 0;
  offset_ = 0;
  part_ = {};
  ready_.clear();
  for (const auto& [number, message] : long_) message->granted = false;
  have_ = 0;
  is_welcome_ = false;
}

std::string Outlet::without_connection(Duration time, std::string_view why) const {
  return fmt::format("no connection to rank {} at {} for {:.1f} s: {}", rank_, address_->text(),
                     seconds(time), why);
}

std::string Outlet::trouble(TimePoint now) const {
  switch (state_) {
    case State::connecting:
      return without_connection(now - trouble_since_.value_or(began_),
                                why_.empty() ? "nobody has answered there yet" : why_);
    case State::lost:
      return without_connection(now - *trouble_since_, why_);
    case State::up:  // whoever is there has not said that it is the right one
      if (trouble_since_ && !is_welcome_) return without_connection(now - *trouble_since_, why_);
      break;
    case State::idle:
    case State::failed:
      break;
  }
  return {};
}

void Outlet::fail() {
  ErrorContext context{.missing = {rank_}};
  const std::string problem = without_connection(site_.limits.patience, why_);
  if (lacks_descriptors_) {
    context.remedy = "raise the limit of open files (ulimit -n)";
    context.missing.clear();
    error_ = std::make_exception_ptr(ResourceError(problem, std::move(context)));
  } else {
    context.remedy =
        "see whether that rank still runs, and whether its host can be reached by the interface "
        "that HYMN_INTERFACE names";
    error_ = std::make_exception_ptr(NetworkError(problem, std::move(context)));
  }
  state_ = State::failed;
  const auto fail_one = [this](Sending& message) {
    message.error = error_;
    site_.finish(message);
  };
  for (const Said& said : said_)
    if (said.sending != nullptr) fail_one(*said.sending);
  for (const auto& [number, message] : long_) fail_one(*message);
  said_.clear();
  long_.clear();
}

bool Outlet::is_drained() const {
  if (state_ == State::connecting) return !has_something_to_say();
  if (state_ != State::up) return true;
  int waiting = 0;
  return !wants_to_write() && (::ioctl(socket_.number(), SIOCOUTQ, &waiting) != 0 || waiting == 0);
}

}  // namespace hymn::tcp
