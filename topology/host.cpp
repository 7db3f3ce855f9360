#include "topology/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

namespace hymn {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than cpu_set_t holds: then cores are not what is scarce.
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

HostRecord this_host() { return {host_name() + "/" + boot_id(), usable_cpus()}; }

Placement place(std::span<const HostRecord> records, int rank) {
  Placement placement;
  std::set<std::string> hosts;
  const HostRecord& mine = records[static_cast<std::size_t>(rank)];
  int local_size = 0;
  int widest = 0;
  int narrow_sum = 0;
  for (std::size_t other = 0; other < records.size(); ++other) {
    hosts.insert(records[other].host);
    if (records[other].host != mine.host) continue;
    if (other < static_cast<std::size_t>(rank)) ++placement.local_rank;
    ++local_size;
    widest = std::max(widest, records[other].usable_cpus);
    narrow_sum += records[other].usable_cpus;
  }
  placement.local_size = local_size;
  placement.host_count = static_cast<int>(hosts.size());
  // Ranks bound to one core each have as many cores as ranks; ranks that may all use the same n
  // cores have n. Without the masks themselves the larger of the two readings that fits is taken.
  const int cores = widest == 1 ? narrow_sum : widest;
  placement.crowded = local_size > cores;
  return placement;
}

}  // namespace hymn
