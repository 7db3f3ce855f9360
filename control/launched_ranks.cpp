#include "control/launched_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/kernel_file.hpp"
#include "control/process_watch.hpp"

namespace hymn {
namespace {

/// The variables by which a launcher tells a process which rank of which job it is, and how many
/// ranks of it are on this host.
struct Variables {
  const char* job;
  const char* rank;
  const char* local_size;
};
// Hydra, MPICH's, names no job; but each of its proxies starts the ranks of a single one.
constexpr std::array launchers{
    Variables{"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Variables{"MPI_LOCALNRANKS", "PMI_RANK", "MPI_LOCALNRANKS"},
};
// Whoever waits looks again and again: a look takes some 20 us for each process.
constexpr auto time_between_polls = std::chrono::milliseconds(20);

std::string own_value(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

/// What a process was started with; nothing where this process may not know it.
std::optional<std::string> environment_of(int pid) {
  return kernel_file(fmt::format("/proc/{}/environ", pid));
}

std::string value_in(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view variable = environment.substr(0, environment.find('\0'));
    if (variable.size() > name.size() && variable.starts_with(name) && variable[name.size()] == '=')
      return std::string(variable.substr(name.size() + 1));
    environment.remove_prefix(std::min(environment.size(), variable.size() + 1));
  }
  return {};
}

int parent_of(int pid) {
  const std::string text = kernel_file(fmt::format("/proc/{}/status", pid)).value_or("");
  const std::size_t at = text.find("\nPPid:");
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 6);
}

/// Nothing where the kernel does not tell.
std::optional<std::vector<int>> children_of(int pid) {
  std::vector<int> children;
  std::error_code error;
  bool is_told = false;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    const auto file = kernel_file(thread.path() / "children");
    is_told = is_told || file;
    const std::string text = file.value_or("");
    for (std::string_view left = text; !left.empty();)
      if (const auto child = number_in(next_part(left, ' '))) children.push_back(*child);
  }
  return is_told && !error ? std::optional(children) : std::nullopt;
}

}  // namespace

// What the launcher has started may itself have started this process: a shell, a debugger.
void LaunchedRanks::find_launcher() {
  const auto* const names = std::ranges::find_if(launchers, [](const Variables& launcher) {
    return !own_value(launcher.job).empty() && !own_value(launcher.rank).empty();
  });
  if (names == launchers.end()) return;
  name_of_job_ = names->job;
  name_of_rank_ = names->rank;
  job_ = own_value(names->job);
  const std::string rank = own_value(names->rank);
  all_are_here_ = number_in(own_value(names->local_size)) == size_;
  topmost_ = getpid();
  launcher_ = parent_of(topmost_);
  while (launcher_ > 1) {
    const std::string environment = environment_of(launcher_).value_or("");
    if (value_in(environment, name_of_job_) != job_ || value_in(environment, name_of_rank_) != rank)
      return;
    topmost_ = launcher_;
    launcher_ = parent_of(topmost_);
  }
  launcher_ = 0;
}

void LaunchedRanks::look() {
  const auto now = Clock::now();
  if (last_look_ && now - *last_look_ < time_between_polls) return;
  if (!last_look_) find_launcher();
  last_look_ = now;
  is_known_ = false;
  there_.clear();
  if (launcher_ == 0) return;
  const auto children = children_of(launcher_);
  if (!children) return;
  bool has_found_itself = false;
  for (const int child : *children) {
    if (hymn::has_ended(child)) continue;
    const auto environment = environment_of(child);
    if (!environment) return;  // it may be any of them
    has_found_itself = has_found_itself || child == topmost_;
    if (value_in(*environment, name_of_job_) != job_) continue;
    if (const auto rank = number_in(value_in(*environment, name_of_rank_))) there_[*rank] = child;
  }
  for (const auto& [rank, pid] : there_) seen_[rank] = pid;
  is_known_ = has_found_itself;
}

bool LaunchedRanks::has_ended(int rank) {
  if (rank < 0 || rank >= size_) return false;
  look();
  if (is_known_ && !there_.contains(rank) && (all_are_here_ || seen_.contains(rank)))
    ended_.insert(rank);
  return ended_.contains(rank);
}

bool LaunchedRanks::is_stopped(int rank) const {
  int pid = pid_of(rank);
  while (pid > 0) {
    if (hymn::is_stopped(pid)) return true;
    const auto inside = children_of(pid);
    pid = inside && inside->size() == 1 ? inside->front() : 0;
  }
  return false;
}

int LaunchedRanks::pid_of(int rank) const {
  const auto found = seen_.find(rank);
  return found == seen_.end() ? 0 : found->second;
}

}  // namespace hymn
