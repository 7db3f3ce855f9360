#include "p2p/tcp/tcp_poller.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

epoll_event event_of(Owner owner, std::uint32_t number, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint64_t>(owner) << 32 | number;
  return event;
}

}  // namespace

Poller::Poller()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !waker_ || !add(waker_.number(), Owner::waker, 0, EPOLLIN))
    throw ResourceError("no descriptors are left for connections between hosts",
                        {.remedy = "raise the limit of open files (ulimit -n)"});
}

bool Poller::add(int socket, Owner owner, std::uint32_t number, std::uint32_t events) {
  epoll_event event = event_of(owner, number, events);
  return ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket, &event) == 0;
}

void Poller::change(int socket, Owner owner, std::uint32_t number, std::uint32_t events) {
  epoll_event event = event_of(owner, number, events);
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, socket, &event);
}

void Poller::remove(int socket) { ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, socket, nullptr); }

std::span<const Ready> Poller::look() {
  const int count =
      ::epoll_wait(epoll_.number(), found_.data(), static_cast<int>(found_.size()), 0);
  std::size_t ready = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = found_[static_cast<std::size_t>(i)];
    ready_[ready++] = {.owner = static_cast<Owner>(event.data.u64 >> 32),
                       .number = static_cast<std::uint32_t>(event.data.u64),
                       .events = event.events};
  }
  return std::span(ready_).first(ready);
}

void Poller::sleep(long nanoseconds) const {
  pollfd all{.fd = epoll_.number(), .events = POLLIN, .revents = 0};
  const timespec limit{.tv_sec = nanoseconds / 1'000'000'000,
                       .tv_nsec = nanoseconds % 1'000'000'000};
  ::ppoll(&all, 1, &limit, nullptr);
}

void Poller::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(waker_.number(), &one, sizeof one);
}

void Poller::forget_wake() const {
  std::uint64_t count = 0;
  (void)!::read(waker_.number(), &count, sizeof count);
}

void Poller::close() {
  epoll_ = {};
  waker_ = {};
}

}  // namespace hymn::tcp
