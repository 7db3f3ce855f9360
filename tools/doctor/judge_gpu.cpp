// Judges the GPUs: who uses which, who sees which, and whether bytes arrive.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/judge.hpp"

namespace hymn {
namespace {

using Ranks = std::vector<const RankFacts*>;

bool sees(const RankFacts& rank, const std::string& gpu) {
  return std::any_of(rank.gpus.begin(), rank.gpus.end(),
                     [&](const VisibleGpu& visible) { return visible.id == gpu; });
}

bool wants_none(const RankFacts& rank) {
  const auto entry = rank.environment.find("HYMN_GPU");
  return entry != rank.environment.end() && entry->second == "none";
}

// Whether ranks of a host that use GPUs see each other's.
void judge_sight(const Ranks& ranks, FindingList& findings) {
  for (const RankFacts* rank : ranks) {
    for (const RankFacts* peer : ranks) {
      if (rank->used_gpu.empty() || peer->used_gpu.empty() || sees(*rank, peer->used_gpu)) continue;
      findings.add("gpu.hidden",
                   fmt::format("{}, which rank {} uses, is hidden from ranks of its host",
                               peer->used_gpu, peer->rank),
                   {{rank->rank}, {}});
    }
  }
}

void judge_use(const JobFacts& job, FindingList& findings) {
  const auto users = std::count_if(job.ranks.begin(), job.ranks.end(),
                                   [](const RankFacts& rank) { return !rank.used_gpu.empty(); });
  std::map<std::pair<int, std::string>, std::vector<int>> sharers;
  for (const RankFacts& rank : job.ranks) {
    if (!rank.used_gpu.empty()) {
      sharers[{rank.host, rank.used_gpu}].push_back(rank.rank);
    } else if (users > 0 && !wants_none(rank)) {
      findings.add("gpu.missing",
                   fmt::format("{} of {} ranks use a GPU, these do not", users, job.ranks.size()),
                   {{rank.rank}, {}});
    }
  }
  for (const auto& [gpu, ranks] : sharers)
    if (ranks.size() > 1)
      findings.add("gpu.shared",
                   fmt::format("{} ranks use {} of {}", ranks.size(), gpu.second,
                               job.hosts[static_cast<std::size_t>(gpu.first)].name),
                   {ranks, {}});
  for (std::size_t host = 0; host < job.hosts.size(); ++host)
    judge_sight(job.ranks_of(host), findings);
}

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string nccl_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

void judge_software(const JobFacts& job, FindingList& findings) {
  std::map<std::string, std::vector<std::string>> drivers;
  std::map<int, std::vector<std::string>> nccls;
  for (const HostFacts& host : job.hosts) {
    if (host.machine.gpus.empty()) continue;
    const Concerned here{{}, {host.name}};
    drivers[host.driver_version].push_back(host.name);
    if (host.cuda_runtime / 1000 > host.cuda_driver / 1000)
      findings.add("gpu.driver-old",
                   fmt::format("the CUDA runtime is {}, the driver understands {}",
                               cuda_text(host.cuda_runtime), cuda_text(host.cuda_driver)),
                   here);
    if (host.nccl == 0) {
      findings.add("gpu.nccl-missing", "there are GPUs, and no libnccl.so.2", here);
    } else {
      nccls[host.nccl].push_back(host.name);
    }
    findings.fine(
        "gpu",
        fmt::format("{} GPU(s), driver {}, CUDA {}, runtime {}, NCCL {}", host.machine.gpus.size(),
                    host.driver_version, cuda_text(host.cuda_driver), cuda_text(host.cuda_runtime),
                    nccl_text(host.nccl)),
        here);
  }
  const auto add_if_several = [&](std::string_view id, const auto& versions, auto&& text) {
    if (versions.size() < 2) return;
    std::string seen;
    for (const auto& [version, hosts] : versions)
      seen += fmt::format("{}{} on {} ({} host(s))", seen.empty() ? "" : "; ", text(version),
                          hosts.front(), hosts.size());
    findings.add(id, seen);
  };
  add_if_several("gpu.driver-differs", drivers, [](const std::string& v) { return "driver " + v; });
  add_if_several("gpu.nccl-differs", nccls, [](int v) { return "NCCL " + nccl_text(v); });
}

void judge_copies(const HostFacts& host, FindingList& findings) {
  const Concerned here{{}, {host.name}};
  std::map<std::string_view, std::string> pairs;  // by kind of finding
  int good = 0;
  for (const GpuCopy& copy : host.copies) {
    const auto pair = copy.from == copy.to ? fmt::format("to and from GPU {}", copy.from)
                                           : fmt::format("GPU {} to {}", copy.from, copy.to);
    const auto say = [&](std::string_view id, const std::string& text) {
      std::string& all = pairs[id];
      all += (all.empty() ? "" : "; ") + text;
    };
    if (!copy.problem.empty()) {
      say("gpu.copy-failed", fmt::format("{}: {}", pair, copy.problem));
    } else if (!copy.right) {
      say("gpu.copy-wrong", pair + ": the bytes that arrived are not those that were sent");
    } else if (!copy.direct) {
      say("gpu.no-peer-access", pair);
    } else {
      ++good;
    }
  }
  for (const auto& [id, text] : pairs) findings.add(id, text, here);
  if (good > 0)
    findings.fine("gpu", fmt::format("{} ways were tried with data: right", good), here);
}

}  // namespace

void judge_gpus(const JobFacts& job, FindingList& findings) {
  const bool none = std::all_of(job.ranks.begin(), job.ranks.end(),
                                [](const RankFacts& rank) { return rank.gpus.empty(); });
  if (none) {
    int hidden = 0;
    for (const RankFacts& rank : job.ranks) hidden = std::max(hidden, rank.hidden_gpus);
    findings.fine("gpu", hidden > 0 ? fmt::format("no rank sees a GPU: CUDA_VISIBLE_DEVICES hides "
                                                  "{} of them",
                                                  hidden)
                                    : "no GPUs: nothing to look at");
    return;
  }
  judge_use(job, findings);
  judge_software(job, findings);
  for (const HostFacts& host : job.hosts) judge_copies(host, findings);
}

}  // namespace hymn
