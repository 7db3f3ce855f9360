// What memory this process can really get: the kernel's estimate, its cgroups, /dev/shm, huge
// pages.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/kernel_file.hpp"

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
  return parse_number(first_line_of(path));
}

/// The rows "Name:   123 kB" and "name 123" of a file.
class Table {
 public:
  explicit Table(const std::string& path) : text_(kernel_file(path).value_or("")) {}

  /// As it stands there; 0 for a row that is not there.
  std::uint64_t operator[](std::string_view name) const {
    for (std::string_view left = text_; !left.empty();) {
      std::string_view row = next_part(left, '\n');
      if (!row.starts_with(name)) continue;
      row.remove_prefix(name.size());
      if (!row.starts_with(':') && !row.starts_with(' ')) continue;
      const std::size_t number = row.find_first_not_of(": \t");
      if (number != row.npos) return parse_number(row.substr(number)).value_or(0);
    }
    return 0;
  }

 private:
  std::string text_;
};

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (!text.empty()) parts.push_back(next_part(text, by));
  return parts;
}

bool holds(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = split(list, ',');
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

std::optional<Mount> mount_of(const Hierarchy& hierarchy, std::string_view mounts) {
  while (!mounts.empty()) {
    // "36 25 0:31 /docker/1 /sys/fs/cgroup rw,… shared:9 - cgroup2 cgroup2 rw,…"
    const std::vector<std::string_view> words = split(next_part(mounts, '\n'), ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool fits =
        hierarchy.version2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && holds(dash[3], "memory");
    if (fits) return Mount{std::string(words[3]), std::string(words[4])};
  }
  return std::nullopt;
}

/// The path of this process's cgroup in its hierarchy.
std::optional<std::string> cgroup_of_process(const Hierarchy& hierarchy, std::string_view cgroups) {
  while (!cgroups.empty()) {
    // "0::/user.slice", "4:memory:/job"; the path may hold colons.
    std::string_view path = next_part(cgroups, '\n');
    const std::string_view number = next_part(path, ':');
    const std::string_view controllers = next_part(path, ':');
    const bool fits =
        hierarchy.version2 ? number == "0" && controllers.empty() : holds(controllers, "memory");
    if (fits && !path.empty()) return std::string(path);
  }
  return std::nullopt;
}

/// What the kernel says of cgroups.
struct Cgroups {
  std::string root;
  std::string mounts;
  std::string own;
};

/// The directories of this process's cgroup and of those above it, as far as they are shown.
std::vector<std::string> cgroup_directories(const Hierarchy& hierarchy, const Cgroups& cgroups) {
  const auto mount = mount_of(hierarchy, cgroups.mounts);
  const auto path = cgroup_of_process(hierarchy, cgroups.own);
  if (!mount || !path) return {};
  // In a container the mount may begin at its cgroup, or the path may lead out of the namespace.
  const std::string above = mount->root == "/" ? "" : mount->root;
  const bool below = path->starts_with(above) && path->find("/..") == std::string::npos &&
                     (path->size() == above.size() || (*path)[above.size()] == '/');
  std::string rest = below ? path->substr(above.size()) : "";
  std::vector<std::string> directories;
  for (;;) {
    while (rest.ends_with('/')) rest.pop_back();
    directories.push_back(fmt::format("{}{}{}", cgroups.root, mount->point, rest));
    if (rest.empty()) return directories;
    rest.resize(rest.rfind('/'));
  }
}

/// Of all cgroups above us the one that leaves least counts.
void read_cgroups(const std::string& root, MemoryLimits& limits) {
  const Cgroups cgroups{root, kernel_file(root + "/proc/self/mountinfo").value_or(""),
                        kernel_file(root + "/proc/self/cgroup").value_or("")};
  std::uint64_t least_room = UINT64_MAX;
  for (const Hierarchy& hierarchy : hierarchies) {
    for (const std::string& directory : cgroup_directories(hierarchy, cgroups)) {
      const auto limit = number_in(directory + "/" + hierarchy.limit);
      if (!limit || *limit >= no_limit) continue;
      // Pages of files that nobody has touched lately are given up before anybody is killed.
      const Table stat(directory + "/memory.stat");
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
  const std::string line = first_line_of(path);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return line.substr(open + 1, close - open - 1);
}

}  // namespace

MemoryLimits read_memory_limits(const std::string& root) {
  MemoryLimits limits;
  const Table memory(root + "/proc/meminfo");
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
