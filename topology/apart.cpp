#include "topology/apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string_view>

#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr int most_seconds = 10;
constexpr std::uint64_t most_memory = std::uint64_t{2} << 30;
constexpr std::size_t most_reply = std::size_t{64} << 20;

// A reply is a length and as many bytes, which tells a whole one from one that a crash cut off.
using Length = std::uint64_t;

bool is_whole(const std::string& reply) {
  Length length = 0;
  if (reply.size() < sizeof length) return false;
  std::memcpy(&length, reply.data(), sizeof length);
  return reply.size() - sizeof length == length;
}

void limit(int resource, std::uint64_t value) {
  struct rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(now.rlim_max, value);
  setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

/// Private memory that this process has mapped already; a sanitizer maps a great deal.
std::uint64_t mapped_memory() {
  std::ifstream file("/proc/self/statm");
  std::array<std::uint64_t, 6> pages{};
  for (std::uint64_t& count : pages) file >> count;
  return pages[5] * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void send(int out, std::string_view text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t written = write(out, text.data() + sent, text.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    sent += static_cast<std::size_t>(written);
  }
}

[[noreturn]] void be_child(int out, const std::function<std::string()>& work) {
  // Who kills the parent must not leave a child behind that waits for a lock of the parent's.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent's handlers are not for us: a crash ends the child, and no trace of it is printed.
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGTERM}) {
    signal(signal_number, SIG_DFL);
  }
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, most_seconds);
  limit(RLIMIT_DATA, mapped_memory() + most_memory);
  try {
    const std::string text = work();
    const Length length = text.size();
    send(out, {reinterpret_cast<const char*>(&length), sizeof length});
    send(out, text);
  } catch (...) {
    _exit(1);  // the parent misses the reply
  }
  _exit(0);
}

/// All that comes until the reply is whole, the other end is closed, or the time is over. The other
/// end may stay open for longer: a thread that forks meanwhile hands it on to its child.
std::string receive(int in) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(most_seconds);
  std::string reply;
  std::array<char, 65536> block{};
  while (reply.size() <= most_reply && !is_whole(reply)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) break;
    struct pollfd wait{in, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t got = read(in, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    reply.append(block.data(), static_cast<std::size_t>(got));
  }
  return reply;
}

}  // namespace

std::optional<std::string> run_apart(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ResourceError("a pipe to a child process cannot be created");
  }
  const pid_t child = fork();
  if (child == 0) be_child(ends[1], work);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw ResourceError("a child process cannot be started");
  }
  std::string reply = receive(ends[0]);
  close(ends[0]);
  const bool whole = is_whole(reply);
  if (!whole) kill(child, SIGKILL);
  // Its status is not asked: an application that ignores SIGCHLD keeps it from us.
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!whole) return std::nullopt;
  return reply.substr(sizeof(Length));
}

}  // namespace hymn
