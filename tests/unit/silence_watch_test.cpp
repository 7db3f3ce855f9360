// A host that has gone is told from one whose process reads nothing.
#include "control/silence_watch.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "tests/support/child.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Connection {
  Connection() {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    ::bind(listener.number(), name, size);
    ::listen(listener.number(), 1);
    ::getsockname(listener.number(), name, &size);
    near = Descriptor(::socket(AF_INET, SOCK_STREAM, 0));
    ::connect(near.number(), name, size);
    far = Descriptor(::accept(listener.number(), nullptr, nullptr));
  }
  bool send_some() const {
    const std::vector<std::byte> bytes(100'000);
    return ::send(near.number(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  }
  Descriptor near;
  Descriptor far;
};

/// How long it took until it was silent; nothing: it was not within the time.
Duration silent_after(int socket, Duration within) {
  SilenceWatch watch(300ms);
  const auto began = Clock::now();
  while (Clock::now() - began < within) {
    if (watch.is_silent(socket, Clock::now())) return Clock::now() - began;
    std::this_thread::sleep_for(20ms);
  }
  return {};
}

TEST(SilenceWatch, WhoReadsNothingIsThere) {
  const Connection connection;
  ASSERT_TRUE(connection.far);
  while (connection.send_some()) {
  }
  EXPECT_EQ(silent_after(connection.near.number(), 1500ms).count(), 0);
}

TEST(SilenceWatch, WhoIsAskedNothingIsThere) {
  const Connection connection;
  ASSERT_TRUE(connection.far);
  EXPECT_EQ(silent_after(connection.near.number(), 500ms).count(), 0);
}

TEST(SilenceWatch, ALocalSocketIsNeverSilent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const Descriptor near(ends[0]);
  const Descriptor far(ends[1]);
  ASSERT_EQ(::write(near.number(), "x", 1), 1);
  EXPECT_EQ(silent_after(near.number(), 500ms).count(), 0);
}

bool set_loopback(bool up) {
  const Descriptor any(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof(request.ifr_name) - 1);
  if (::ioctl(any.number(), SIOCGIFFLAGS, &request) != 0) return false;
  const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags);
  return ::ioctl(any.number(), SIOCSIFFLAGS, &request) == 0;
}

/// In a network of its own, whose only road is taken away: with what is under way, and with a full
/// window as well.
TEST(SilenceWatch, WhoHasGoneIsSilent) {
  for (const bool is_full : {false, true}) {
    Child child([is_full]() -> std::string {
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !set_loopback(true)) return "none";
      const Connection connection;
      while (is_full && connection.send_some()) {
      }
      set_loopback(false);
      if (!is_full) connection.send_some();
      const auto took = silent_after(connection.near.number(), 10s);
      return took >= 300ms ? "" : "not silent";
    });
    const std::string said = child.report();
    if (said == "none") GTEST_SKIP() << "no network of its own can be had";
    EXPECT_EQ(said, "") << is_full;
  }
}

}  // namespace
}  // namespace hymn::test
