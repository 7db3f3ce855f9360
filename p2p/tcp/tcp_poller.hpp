// Which sockets have something to do: epoll, and a way to wake who sleeps in it.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/descriptor.hpp"

namespace hymn::tcp {

/// Whose a socket is.
enum class Owner : std::uint32_t { listener, waker, guest, link, stream };

struct Ready {
  Owner owner{};
  std::uint32_t number = 0;  ///< of its owner: a rank, a rank's stream, or what it was added with
  std::uint32_t events = 0;
};

class Poller {
 public:
  /// Throws ResourceError for want of descriptors.
  Poller();

  /// Whether there was room for it.
  [[nodiscard]] bool add(int socket, Owner owner, std::uint32_t number, std::uint32_t events);
  void change(int socket, Owner owner, std::uint32_t number, std::uint32_t events);
  void remove(int socket);

  /// What is ready now, until the next look.
  std::span<const Ready> look();
  /// Until something is ready, or somebody wakes it; any thread.
  void sleep(long nanoseconds) const;
  void wake() const;
  void forget_wake() const;
  /// In a child made by fork(): its parent goes on with all of it.
  void close();

 private:
  Descriptor epoll_;
  Descriptor waker_;
  std::array<epoll_event, 64> found_;
  std::array<Ready, 64> ready_;
};

}  // namespace hymn::tcp
