#include "control/process_watch.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <sstream>

#include "base/kernel_file.hpp"
#include "base/signal_text.hpp"

namespace hymn {
namespace {

// Not in the C library of Debian 12's time everywhere.
int open_pidfd(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

/// What the kernel tells of a process by its pidfd, since Linux 6.15 also when its parent has asked
/// about its end. Not in the headers of Debian 12.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::uint32_t ids[11]{};
  std::int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t info_exit = 1u << 3;

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return killed_by(WTERMSIG(status));
  return WIFEXITED(status) ? fmt::format("ended with status {}", WEXITSTATUS(status)) : "";
}

/// Of a process whose parent has asked about its end; empty where it cannot be told.
std::string how_it_ended_by(int pidfd) {
  PidfdInfo info{.mask = info_exit};
  if (::ioctl(pidfd, _IOWR(0xFF, 11, PidfdInfo), &info) != 0 || (info.mask & info_exit) == 0)
    return {};
  return status_text(info.exit_code);
}

/// The fields of /proc/<pid>/stat behind the name, which may hold anything.
std::string stat_fields(int pid) {
  const std::string line = first_line_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? "" : line.substr(name_end + 1);
}

}  // namespace

ProcessWatch::ProcessWatch(asio::io_context& io, Ended ended)
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
      [this, number, pid, alive = std::weak_ptr(watched_)](const asio::error_code& error) {
        if (error || alive.expired()) return;
        // Its parent may ask about it at any moment: one of the two always knows, in this order.
        std::string how = how_it_ended(pid);
        if (how.empty()) how = how_it_ended_by(watched_->at(number).native_handle());
        watched_->erase(number);
        ended_(number, how);
      });
  return true;
}

bool has_ended(int pid) {
  if (pid <= 0) return false;
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  // Its parent may not have asked about it. Of one whose first thread has ended others may run on.
  constexpr int threads_behind_state = 17;
  std::istringstream fields(stat_fields(pid));
  char state = '?';
  std::string field;
  if (!(fields >> state) || state != 'Z') return false;
  for (int read = 0; read < threads_behind_state; ++read) fields >> field;
  return field == "1";
}

std::string words_of_end(const std::string& how) {
  if (how.empty()) return "its process has ended";
  return fmt::format("its process {} {}", how.starts_with("killed") ? "was" : "has", how);
}

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
  return status < 0 ? "" : status_text(status);
}

}  // namespace hymn
