#include "control/process_watch.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string_view>

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
class StatFields {
 public:
  explicit StatFields(int pid) : line_(first_line_of(fmt::format("/proc/{}/stat", pid))) {
    const std::size_t name_end = line_.rfind(')');
    if (name_end != std::string::npos) fields_ = std::string_view(line_).substr(name_end + 1);
  }
  StatFields(const StatFields&) = delete;
  StatFields& operator=(const StatFields&) = delete;

  char state() const { return (*this)[0].empty() ? '?' : (*this)[0].front(); }
  /// Counted from the state; "" where the line is shorter.
  std::string_view operator[](int index) const {
    std::string_view left = fields_;
    std::string_view field;
    for (int i = 0; i <= index; ++i) {
      left.remove_prefix(std::min(left.find_first_not_of(' '), left.size()));
      field = left.substr(0, left.find(' '));
      left.remove_prefix(field.size());
    }
    return field;
  }

 private:
  std::string line_;
  std::string_view fields_;
};

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
  const StatFields fields(pid);
  return fields.state() == 'Z' && fields[threads_behind_state] == "1";
}

std::string words_of_end(const std::string& how) {
  if (how.empty()) return "its process has ended";
  return fmt::format("its process {} {}", how.starts_with("killed") ? "was" : "has", how);
}

bool is_stopped(int pid) {
  const char state = StatFields(pid).state();
  return state == 'T' || state == 't';
}

std::string how_it_ended(int pid) {
  const StatFields fields(pid);
  if (fields.state() != 'Z') return {};
  // The last of all fields; a shorter line says nothing.
  constexpr int status_behind_state = 49;
  const std::string_view field = fields[status_behind_state];
  int status = -1;
  std::from_chars(field.data(), field.data() + field.size(), status);
  return status < 0 ? "" : status_text(status);
}

}  // namespace hymn
