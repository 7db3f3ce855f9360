#include "control/process_watch.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

namespace hymn {
namespace {

// Not in the C library of Debian 12's time everywhere.
int open_pidfd(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

/// The fields of /proc/<pid>/stat behind the name, which may hold anything.
std::string stat_fields(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? "" : line.substr(name_end + 1);
}

}  // namespace

ProcessWatch::ProcessWatch(asio::io_context& io, std::function<void(int)> ended)
    : watched_(std::make_shared<std::map<int, asio::posix::stream_descriptor>>()),
      io_(io),
      ended_(std::move(ended)) {}

ProcessWatch::~ProcessWatch() { watched_->clear(); }

bool ProcessWatch::watch(int number, int pid) {
  const int descriptor = open_pidfd(pid);
  if (descriptor < 0) return false;
  const auto [entry, is_new] =
      watched_->try_emplace(number, asio::posix::stream_descriptor(io_, descriptor));
  if (!is_new) return true;
  entry->second.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [this, number, alive = std::weak_ptr(watched_)](const asio::error_code& error) {
        if (error || alive.expired()) return;
        watched_->erase(number);
        ended_(number);
      });
  return true;
}

bool has_ended(int pid) { return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH; }

bool is_stopped(int pid) {
  std::istringstream fields(stat_fields(pid));
  char state = '?';
  fields >> state;
  return state == 'T' || state == 't';
}

std::string how_it_ended(int pid) {
  std::istringstream fields(stat_fields(pid));
  char state = '?';
  fields >> state;
  if (state != 'Z') return {};
  // The last of all fields; a shorter line says nothing. Those before it may be as large as any.
  constexpr int fields_behind_state = 49;
  std::string field;
  int read = 0;
  while (read < fields_behind_state && fields >> field) ++read;
  int status = -1;
  if (read < fields_behind_state || !(std::istringstream(field) >> status)) return {};
  if (status < 0) return {};
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  if (WIFEXITED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return {};
}

}  // namespace hymn
