// Judges what ranks of one host share: cores, memory, files, limits.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "tools/doctor/judge.hpp"

namespace hymn {
namespace {

using Ranks = std::vector<const RankFacts*>;

std::vector<int> numbers_of(const Ranks& ranks) {
  std::vector<int> numbers;
  for (const RankFacts* rank : ranks) numbers.push_back(rank->rank);
  return numbers;
}

// Hardware threads of one core count once. CPUs of unknown cores are taken for cores.
int cores_in(const Machine& machine, const CpuSet& cpus) {
  std::set<int> cores;
  for (int cpu : cpus.to_vector()) {
    const int core = machine.core_of(cpu);
    cores.insert(core >= 0 ? core : -1 - cpu);
  }
  return static_cast<int>(cores.size());
}

CpuSet cpus_of(const Ranks& ranks) {
  CpuSet cpus;
  for (const RankFacts* rank : ranks) cpus |= rank->cpus;
  return cpus;
}

std::string cores_text(int cores) { return fmt::format("{} core{}", cores, cores == 1 ? "" : "s"); }
std::string ranks_text(std::size_t ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

// More ranks than cores, among ranks that may use `cpus`. False: there is room.
bool add_oversubscription(const HostFacts& host, const Ranks& ranks, const CpuSet& cpus,
                          FindingList& findings) {
  const int cores = cores_in(host.machine, cpus);
  if (static_cast<int>(ranks.size()) <= cores) return false;
  const int granted = cores_in(host.machine, host.machine.allowed_cpus);
  const auto seen = fmt::format("{} of {} may run on {} only (CPUs {}); the job may use {} there",
                                ranks_text(ranks.size()), host.name, cores_text(cores),
                                cpus.to_string(), cores_text(std::max(cores, granted)));
  findings.add(granted > cores ? "cpus.same-core" : "cpus.oversubscribed", seen,
               {numbers_of(ranks), {}});
  return true;
}

bool add_oversubscriptions(const HostFacts& host, const Ranks& ranks, FindingList& findings) {
  std::map<CpuSet, Ranks> bound;
  for (const RankFacts* rank : ranks) bound[rank->cpus].push_back(rank);
  bool oversubscribed = false;
  for (const auto& [cpus, together] : bound)
    oversubscribed = add_oversubscription(host, together, cpus, findings) || oversubscribed;
  return oversubscribed || add_oversubscription(host, ranks, cpus_of(ranks), findings);
}

int openmp_threads(const RankFacts& rank) {
  const auto entry = rank.environment.find("OMP_NUM_THREADS");
  int threads = 1;  // of a list of levels, the first
  if (entry != rank.environment.end())
    std::from_chars(entry->second.data(), entry->second.data() + entry->second.size(), threads);
  return std::clamp(threads, 1, 1 << 20);
}

void add_threads(const HostFacts& host, const Ranks& ranks, FindingList& findings) {
  long threads = 0;
  for (const RankFacts* rank : ranks) threads += openmp_threads(*rank);
  const int cores = cores_in(host.machine, cpus_of(ranks));
  if (threads > static_cast<long>(ranks.size()) && threads > cores) {
    findings.add("cpus.threads",
                 fmt::format("{} of {} start {} OpenMP threads (OMP_NUM_THREADS) on {}",
                             ranks_text(ranks.size()), host.name, threads, cores_text(cores)),
                 {{}, {host.name}});
    return;
  }
  for (const RankFacts* rank : ranks) {
    const int own = cores_in(host.machine, rank->cpus);
    if (openmp_threads(*rank) > std::max(1, own))
      findings.add("cpus.threads",
                   fmt::format("OMP_NUM_THREADS={} on a rank that may use {}",
                               openmp_threads(*rank), cores_text(own)),
                   {{rank->rank}, {}});
  }
}

void judge_cpus_of(const HostFacts& host, const Ranks& ranks, FindingList& findings) {
  const CpuSet cpus = cpus_of(ranks);
  const Concerned here{{}, {host.name}};
  const bool oversubscribed = add_oversubscriptions(host, ranks, findings);
  add_threads(host, ranks, findings);
  const bool same_for_all = std::all_of(ranks.begin(), ranks.end(),
                                        [&](const RankFacts* rank) { return rank->cpus == cpus; });
  const int cores = cores_in(host.machine, cpus);
  if (!oversubscribed && ranks.size() > 1 && same_for_all)
    findings.add("cpus.unbound",
                 fmt::format("{} may all run on the same {} (CPUs {})", ranks_text(ranks.size()),
                             cores_text(cores), cpus.to_string()),
                 here);
  const int all = cores_in(host.machine, host.machine.cpus);
  if (cores < all)
    findings.add("cpus.narrow",
                 fmt::format("the ranks may use {} of {} (CPUs {} of {}); the cpuset grants {}",
                             cores, cores_text(all), cpus.to_string(),
                             host.machine.cpus.to_string(), host.machine.allowed_cpus.to_string()),
                 here);
  findings.fine("cpus",
                fmt::format("{} on {} (CPUs {})", ranks_text(ranks.size()), cores_text(cores),
                            cpus.to_string()),
                here);
}

void judge_memory_of(const JobFacts& job, const HostFacts& host, const Ranks& ranks,
                     FindingList& findings) {
  const Concerned here{{}, {host.name}};
  const MemoryLimits& memory = host.machine.memory;
  for (const RankFacts* rank : ranks)
    if (!rank->segment_problem.empty())
      findings.add("memory.segment",
                   fmt::format("a segment of {} cannot be had: {}", size_text(rank->segment_bytes),
                               rank->segment_problem),
                   {{rank->rank}, {}});
  const std::uint64_t wanted = job.segment_bytes * ranks.size();
  const std::uint64_t usable = memory.usable_bytes();
  const auto usage = fmt::format("{} can be had; {} for {} are wanted", size_text(usable),
                                 size_text(wanted), ranks_text(ranks.size()));
  const bool is_known = memory.total_bytes != 0 || memory.cgroup_max_bytes;
  if (is_known && usable < wanted) {
    findings.add("memory.short", usage, here);
  } else {
    findings.fine("memory", usage, here);
  }
  if (memory.cgroup_max_bytes && *memory.cgroup_max_bytes < memory.total_bytes)
    findings.add("memory.limit",
                 fmt::format("memory.max is {} of the host's {}, {} are in use",
                             size_text(*memory.cgroup_max_bytes), size_text(memory.total_bytes),
                             size_text(memory.cgroup_used_bytes)),
                 here);
  const auto shm = fmt::format("/dev/shm has {} of {} free", size_text(memory.shm_free_bytes),
                               size_text(memory.shm_total_bytes));
  if (host.shm_problem.empty()) {
    findings.fine("memory", shm, here);
  } else {
    findings.add("memory.shm",
                 fmt::format("a file of {} for {} cannot be had: {}; {}", size_text(host.shm_bytes),
                             ranks_text(ranks.size()), host.shm_problem, shm),
                 here);
  }
  if (memory.transparent_huge_pages == "never" && memory.huge_pages_free == 0)
    findings.add("memory.huge-pages",
                 "transparent huge pages are off (never), and no huge pages are reserved", here);
  else
    findings.fine("memory",
                  fmt::format("transparent huge pages: {}; {} of {} are free",
                              memory.transparent_huge_pages.empty() ? "unknown"
                                                                    : memory.transparent_huge_pages,
                              memory.huge_pages_free, size_text(memory.huge_page_bytes)),
                  here);
}

std::string limit_text(std::uint64_t limit) {
  return limit == std::numeric_limits<std::uint64_t>::max() ? "unlimited"
                                                            : fmt::format("{}", limit);
}

std::string bytes_text(std::uint64_t limit) {
  return limit == std::numeric_limits<std::uint64_t>::max() ? "unlimited" : size_text(limit);
}

}  // namespace

void judge_cpus(const JobFacts& job, FindingList& findings) {
  for (std::size_t host = 0; host < job.hosts.size(); ++host)
    judge_cpus_of(job.hosts[host], job.ranks_of(host), findings);
}

void judge_memory(const JobFacts& job, FindingList& findings) {
  for (std::size_t host = 0; host < job.hosts.size(); ++host)
    judge_memory_of(job, job.hosts[host], job.ranks_of(host), findings);
}

void judge_files(const JobFacts& job, FindingList& findings) {
  for (const HostFacts& host : job.hosts) {
    const StaleFiles& stale = host.stale;
    const Concerned here{{}, {host.name}};
    if (stale.count == 0) {
      findings.fine("files", "no files of jobs that have ended", here);
      continue;
    }
    std::string seen = fmt::format("{} file{} of jobs that have ended, {} in all", stale.count,
                                   stale.count == 1 ? "" : "s", size_text(stale.bytes));
    for (const std::string& example : stale.examples) seen += fmt::format(", {}", example);
    if (static_cast<int>(stale.examples.size()) < stale.count) seen += ", …";
    // A tenth of /dev/shm is what its usual size can spare.
    const bool fills = stale.shm_bytes > host.machine.memory.shm_total_bytes / 10;
    findings.add(fills ? "files.stale-fill" : "files.stale", seen, here);
  }
}

void judge_limits(const JobFacts& job, FindingList& findings) {
  const std::uint64_t files = std::max<std::uint64_t>(256, 64 + 2 * job.ranks.size());
  std::vector<std::uint64_t> ranks_on(job.hosts.size());
  for (const RankFacts& rank : job.ranks) ++ranks_on[static_cast<std::size_t>(rank.host)];
  for (const RankFacts& rank : job.ranks) {
    const auto host = static_cast<std::size_t>(rank.host);
    const std::uint64_t processes = 128 + 16 * ranks_on[host];
    const Concerned concerned{{rank.rank}, {}};
    const ResourceLimits& limits = rank.limits;
    if (limits.open_files < files)
      findings.add("limits.open-files",
                   fmt::format("RLIMIT_NOFILE is {}; a job of {} may need {}", limits.open_files,
                               ranks_text(job.ranks.size()), files),
                   concerned);
    if (limits.processes < processes)
      findings.add("limits.processes",
                   fmt::format("RLIMIT_NPROC is {}; the threads of this host's ranks may need {}",
                               limits.processes, processes),
                   concerned);
    if (!job.hosts[host].rdma_devices.empty() && limits.locked_memory < job.segment_bytes)
      findings.add("limits.locked-memory",
                   fmt::format("RLIMIT_MEMLOCK is {}, and there is {}",
                               size_text(limits.locked_memory), job.hosts[host].rdma_devices[0]),
                   concerned);
    findings.fine("limits",
                  fmt::format("open files {}, processes {}, locked memory {}, core file {}",
                              limit_text(limits.open_files), limit_text(limits.processes),
                              bytes_text(limits.locked_memory), bytes_text(limits.core_file)),
                  concerned);
  }
}

}  // namespace hymn
