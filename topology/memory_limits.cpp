// What memory this process can really get: the kernel's estimate, its cgroups, /dev/shm, huge
// pages.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "topology/read_machine.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t no_limit = UINT64_MAX / 4;  // version 1 writes about 2^63 for "none"

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return parse_number(line);
}

/// "Name:   123 kB" and "name 123": the numbers as they stand.
std::map<std::string, std::uint64_t> table_in(const std::string& path) {
  std::map<std::string, std::uint64_t> table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    if (!(words >> name >> number)) continue;
    if (name.back() == ':') name.pop_back();
    table[name] = number;
  }
  return table;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

bool holds(const std::string& list, std::string_view word) {
  const std::vector<std::string> words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// How one version of cgroups spells what is asked here.
struct Hierarchy {
  bool version2;
  const char* limit;
  const char* used;
  const char* reclaimable;  // within `used`, a row of memory.stat
};
constexpr Hierarchy hierarchies[] = {
    {true, "memory.max", "memory.current", "inactive_file"},
    {false, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/// Where a hierarchy is mounted, and which of its directories that mount shows.
struct Mount {
  std::string root;
  std::string point;
};

std::optional<Mount> mount_of(const Hierarchy& hierarchy, const std::string& root) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // "36 25 0:31 /docker/1 /sys/fs/cgroup rw,… shared:9 - cgroup2 cgroup2 rw,…"
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool fits =
        hierarchy.version2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && holds(dash[3], "memory");
    if (fits) return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

/// The path of this process's cgroup in its hierarchy.
std::optional<std::string> cgroup_of_process(const Hierarchy& hierarchy, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "0::/user.slice", "4:memory:/job"; the path may hold colons.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.version2 ? line.starts_with("0::") : holds(controllers, "memory")) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// The directories of this process's cgroup and of those above it, as far as they are shown.
std::vector<std::string> cgroup_directories(const Hierarchy& hierarchy, const std::string& root) {
  const auto mount = mount_of(hierarchy, root);
  auto path = cgroup_of_process(hierarchy, root);
  if (!mount || !path) return {};
  // In a container the mount may begin at its cgroup, or the path may lead out of the namespace.
  const std::string above = mount->root == "/" ? "" : mount->root;
  const bool below = path->starts_with(above) && path->find("/..") == std::string::npos &&
                     (path->size() == above.size() || (*path)[above.size()] == '/');
  std::string rest = below ? path->substr(above.size()) : "";
  std::vector<std::string> directories;
  for (;;) {
    while (rest.ends_with('/')) rest.pop_back();
    directories.push_back(fmt::format("{}{}{}", root, mount->point, rest));
    if (rest.empty()) return directories;
    rest.resize(rest.rfind('/'));
  }
}

/// Of all cgroups above us the one that leaves least counts.
void read_cgroups(const std::string& root, MemoryLimits& limits) {
  std::uint64_t least_room = UINT64_MAX;
  for (const Hierarchy& hierarchy : hierarchies) {
    for (const std::string& directory : cgroup_directories(hierarchy, root)) {
      const auto limit = number_in(directory + "/" + hierarchy.limit);
      if (!limit || *limit >= no_limit) continue;
      // Pages of files that nobody has touched lately are given up before anybody is killed.
      auto stat = table_in(directory + "/memory.stat");
      const std::uint64_t used = number_in(directory + "/" + hierarchy.used).value_or(0);
      const std::uint64_t kept = used - std::min(used, stat[hierarchy.reclaimable]);
      const std::uint64_t room = *limit - std::min(*limit, kept);
      if (limits.cgroup_max_bytes && room >= least_room) continue;
      least_room = room;
      limits.cgroup_max_bytes = limit;
      limits.cgroup_used_bytes = kept;
    }
  }
}

/// "always [madvise] never": what stands in brackets.
std::string chosen_in(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return line.substr(open + 1, close - open - 1);
}

}  // namespace

MemoryLimits read_memory_limits(const std::string& root) {
  MemoryLimits limits;
  auto memory = table_in(root + "/proc/meminfo");
  constexpr std::uint64_t kib = 1024;
  limits.total_bytes = memory["MemTotal"] * kib;
  limits.available_bytes = memory["MemAvailable"] * kib;
  limits.huge_page_bytes = memory["Hugepagesize"] * kib;
  limits.huge_pages_free = memory["HugePages_Free"];
  limits.transparent_huge_pages = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  read_cgroups(root, limits);
  struct statvfs shm{};
  if (statvfs((root + "/dev/shm").c_str(), &shm) == 0) {
    limits.shm_total_bytes = std::uint64_t{shm.f_blocks} * shm.f_frsize;
    limits.shm_free_bytes = std::uint64_t{shm.f_bavail} * shm.f_frsize;
  }
  return limits;
}

}  // namespace hymn
