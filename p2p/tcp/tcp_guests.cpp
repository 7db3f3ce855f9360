// Who connects: heard until it has proved itself, or for as long as strangers are heard. It costs a
// descriptor and a few bytes until then, and is told nothing.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "hymn/error.hpp"
#include "p2p/tcp/tcp_net.hpp"
#include "p2p/tcp/tcp_socket.hpp"

namespace hymn::tcp {
namespace {

constexpr int most_guests_at_once = 64;
constexpr Duration deaf_for = std::chrono::milliseconds(100);

}  // namespace

void Net::listen(const std::string& host) {
  const std::lock_guard lock(mutex_);
  Descriptor listener = listen_at(Address::parse(host, "0"));
  if (!poller_.add(listener.number(), Owner::listener, 0, EPOLLIN))
    throw ResourceError("no memory for a listener");
  listener_ = std::move(listener);
}

std::optional<Address> Net::listens_at() const {
  const std::lock_guard lock(mutex_);
  return listener_ ? std::optional(Address::of(listener_.number())) : std::nullopt;
}

void Net::accept() {
  for (int i = 0; i < most_guests_at_once; ++i) {
    int problem = 0;
    Descriptor socket = accept_one(listener_.number(), problem);
    if (!socket) {
      if (problem == EMFILE || problem == ENFILE || problem == ENOBUFS || problem == ENOMEM)
        note_shortage();
      return;
    }
    deaf_since_.reset();
    const std::uint32_t number = ++last_guest_;
    if (!poller_.add(socket.number(), Owner::guest, number, EPOLLIN)) return;
    tune(socket.number());
    guests_[number] = {.socket = std::move(socket), .since = std::chrono::steady_clock::now()};
    if (guests_.size() > most_strangers + links_.size()) end_guest(guests_.begin());
    hear(number);  // it has most likely said all
  }
}

// They wait in the system's queue meanwhile.
void Net::note_shortage() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (!deaf_since_) {
    deaf_since_ = now;
    logger_.warning(
        "no descriptors are left for those who connect to this rank; remedy: raise the limit of "
        "open files (ulimit -n)");
  }
  poller_.change(listener_.number(), Owner::listener, 0, 0);
}

void Net::hear(std::uint32_t number) {
  const auto found = guests_.find(number);
  if (found == guests_.end()) return;
  Guest& guest = found->second;
  // Not a byte more: what comes behind is for the link.
  const std::array rest{iovec{guest.hello.data() + guest.have, guest.hello.size() - guest.have}};
  const Moved got = read_some(guest.socket.number(), rest);
  guest.have += got.bytes;
  if (got.over) return end_guest(found);
  if (guest.have < guest.hello.size()) return;
  poller_.remove(guest.socket.number());
  Guest known = std::move(guest);
  guests_.erase(found);
  welcome(std::move(known));
}

void Net::welcome(Guest guest) {
  Contact contact;
  const auto refused = [&](std::string_view why) {
    logger_.info(contact.from < 0 ? fmt::format("a connection was refused: {}", why)
                                  : fmt::format("a connection of rank {} (turn {}, stream {}) was "
                                                "refused: {}",
                                                contact.from, contact.turn, contact.stream, why));
  };
  try {
    contact = read_hello(guest.hello, site_.token, site_.rank, nonce_);
    if (contact.from < 0 || contact.from >= size()) throw NetworkError("there is no such rank");
    link(contact.from).meet(std::move(guest.socket), contact);
  } catch (const NetworkError& error) {
    refused(error.problem());
  } catch (const std::bad_alloc&) {
    refused("no memory for it");
  }
}

void Net::end_guest(std::map<std::uint32_t, Guest>::iterator guest) {
  poller_.remove(guest->second.socket.number());
  guests_.erase(guest);
}

void Net::forget_guests(TimePoint now) {
  while (!guests_.empty() && now - guests_.begin()->second.since > site_.limits.handshake)
    end_guest(guests_.begin());
  if (deaf_since_ && listener_ && now - *deaf_since_ > deaf_for)
    poller_.change(listener_.number(), Owner::listener, 0, EPOLLIN);
}

std::size_t Net::strangers() const {
  const std::lock_guard lock(mutex_);
  return guests_.size();
}

}  // namespace hymn::tcp
