#include "tests/fault/cutter.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <vector>

#include "base/descriptor.hpp"

namespace hymn::test {
namespace {

/// Nothing else in these processes sets this limit to that.
bool is_of_tcp_path(int socket) {
  constexpr int limit_ms = 30'000;
  int value = 0;
  socklen_t length = sizeof value;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length) == 0 &&
         value == limit_ms;
}

/// Duplicates, so that none becomes another file in the midst of this.
std::vector<Descriptor> connections() {
  std::vector<Descriptor> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    Descriptor one(::fcntl(std::stoi(entry.path().filename()), F_DUPFD_CLOEXEC, 0));
    if (one && is_of_tcp_path(one.number())) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace

void Cutter::start(int every_ms, std::uint64_t seed) {
  if (every_ms == 0) return;
  goes_on_ = true;
  thread_ = std::thread([this, every_ms, seed] {
    std::minstd_rand random(static_cast<unsigned>(seed));
    while (goes_on_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(every_ms));
      const std::vector<Descriptor> all = connections();
      if (all.empty() || !goes_on_) continue;
      ::shutdown(all[random() % all.size()].number(), SHUT_RDWR);
      ++count_;
    }
  });
}

void Cutter::stop() {
  goes_on_ = false;
  if (thread_.joinable()) thread_.join();
}

}  // namespace hymn::test
