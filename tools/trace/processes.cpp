#include "tools/trace/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hymn/error.hpp"

namespace hymn::trace {
namespace {

std::string link_text(const std::string& path) {
  std::array<char, 256> text{};
  const ssize_t length = readlink(path.c_str(), text.data(), text.size());
  return length < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(length));
}

/// The numbers that a folder of /proc has as names.
std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (wrong == std::errc() && rest == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

/// Where the kernel has no memfd, it is a file of /dev/shm without a name.
bool may_be_recorder(const std::string& link) {
  return link.starts_with("/memfd:hymn-recorder-") || link.starts_with("/dev/shm/#");
}

/// What a process is called where it was born: its records tell that.
int own_number_of(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  int own = pid;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    while (numbers >> own) {
    }
  }
  return own;
}

std::optional<FoundRecorder> open_recorder(int pid, const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found{};
  if (!file || fstat(file.number(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_size <= 0)
    return std::nullopt;
  FoundRecorder recorder{pid, SharedMapping(file, static_cast<std::size_t>(found.st_size),
                                            SharedMapping::Access::read)};
  const RecorderHeader& header = recorder.view().header();
  // A child may hold what was its parent's.
  if (header.pid != own_number_of(pid)) return std::nullopt;
  // Who has said goodbye may still wait for the others to do so.
  const auto making = recorder.view().making();
  const bool is_ending = making && making->kind == MakingKind::end;
  return has_left(header) && !is_ending ? std::nullopt : std::optional(std::move(recorder));
}

/// The number behind a process's state in /proc/<pid>/stat: who has started it.
int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  char state = '?';
  int parent = 0;
  fields >> state >> parent;
  return parent;
}

}  // namespace

bool has_left(const RecorderHeader& header) {
  const std::uint32_t farewell = header.farewell.load(std::memory_order_acquire);
  return farewell == RecorderHeader::farewell_goodbye || farewell >= RecorderHeader::farewell_after;
}

Access access_to(int pid) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  if (DIR* opened = opendir(folder.c_str())) {
    closedir(opened);
    return Access::open;
  }
  return errno == EACCES || errno == EPERM ? Access::forbidden : Access::gone;
}

std::vector<FoundRecorder> recorders_of(int pid, std::string* problem) {
  std::vector<FoundRecorder> found;
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  for (const int number : numbers_in(folder)) {
    const std::string path = fmt::format("{}/{}", folder, number);
    const std::string link = link_text(path);
    if (!may_be_recorder(link)) continue;
    try {
      if (auto recorder = open_recorder(pid, path)) found.push_back(std::move(*recorder));
    } catch (const Error& error) {
      if (problem != nullptr && link.starts_with("/memfd:")) *problem = error.problem();
    }
  }
  return found;
}

std::vector<int> all_processes() { return numbers_in("/proc"); }

bool descends_from(int pid, int ancestor) {
  constexpr int deepest = 64;
  for (int i = 0; i < deepest && pid > 1; ++i) {
    pid = parent_of(pid);
    if (pid == ancestor) return true;
  }
  return false;
}

std::string program_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace hymn::trace
