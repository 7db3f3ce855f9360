// Judges what ranks should have in common: MPI, hymn, and their environment.
#include "tools/doctor/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace hymn {
namespace {

using Values = std::map<std::string, std::vector<int>>;  // ranks by what they say

std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 60;
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

std::string list_values(const Values& values) {
  std::string text;
  for (const auto& [value, ranks] : values)
    text += fmt::format("{}{} on rank{} {}", text.empty() ? "" : "; ", shortened(value),
                        ranks.size() == 1 ? "" : "s", list_ranks(ranks));
  return text;
}

// All ranks but those that say what most say; of equally many, what the lowest rank says.
std::vector<int> minority(const Values& values) {
  const auto most =
      std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.size(), -a.second.front()) <
               std::pair(b.second.size(), -b.second.front());
      });
  std::vector<int> ranks;
  for (auto value = values.begin(); value != values.end(); ++value)
    if (value != most) ranks.insert(ranks.end(), value->second.begin(), value->second.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

template <class Say>
Values values_of(const JobFacts& job, Say&& say) {
  Values values;
  for (const RankFacts& rank : job.ranks) values[say(rank)].push_back(rank.rank);
  return values;
}

// True when they differ.
bool add_if_different(std::string_view id, const std::string& what, const Values& values,
                      FindingList& findings) {
  if (values.size() < 2) return false;
  findings.add(id, what + ": " + list_values(values), {.ranks = minority(values), .hosts = {}});
  return true;
}

bool begins_with_any(const std::string& text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

bool is_rank_matter(const std::string& variable) {
  for (const char* name : {"HYMN_GPU", "HYMN_LOG_LEVEL", "HYMN_BIND", "HYMN_TOPOLOGY_FILE",
                           "HYMN_TUNING", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"})
    if (variable == name) return true;
  return false;
}

std::string_view kind_for(const std::string& variable) {
  if (is_rank_matter(variable)) return "environment.rank";
  return variable.starts_with("HYMN_") ? "environment.hymn" : "environment.transport";
}

}  // namespace

std::vector<const RankFacts*> JobFacts::ranks_of(std::size_t host) const {
  std::vector<const RankFacts*> result;
  for (const RankFacts& rank : ranks)
    if (static_cast<std::size_t>(rank.host) == host) result.push_back(&rank);
  return result;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 && unit > 0 ? 1 : 0, units[unit]);
}

bool is_compared(const std::string& variable) {
  if (is_rank_matter(variable)) return true;
  // Open MPI's mpirun tells its own ranks and daemons what to do by these.
  if (begins_with_any(variable,
                      {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_plm",
                       "OMPI_MCA_rmaps_", "OMPI_MCA_hwloc_base_", "OMPI_MCA_shmem_",
                       "OMPI_MCA_initial_wdir", "OMPI_MCA_mpi_oversubscribe", "OMPI_MCA_prte_",
                       "OMPI_MCA_ras", "OMPI_MCA_mpi_yield", "OMPI_MCA_routed"}))
    return false;
  return begins_with_any(variable, {"HYMN_", "OMPI_MCA_", "UCX_", "NCCL_", "FI_", "PSM2_", "MPIR_",
                                    "MPICH_", "I_MPI_"}) &&
         variable != "PSM2_DEVICES";  // set by Open MPI's mpirun
}

void judge_mpi(const JobFacts& job, FindingList& findings) {
  if (!add_if_different("mpi.differs", "MPI library",
                        values_of(job, [](const RankFacts& r) { return r.mpi_library; }), findings))
    findings.fine("mpi", "all ranks use " + job.ranks.front().mpi_library);
  for (const RankFacts& rank : job.ranks) {
    const Concerned concerned{{rank.rank}, {}};
    const auto seen = fmt::format("asked for MPI_THREAD level {}, granted {}",
                                  to_string(rank.wanted_level), to_string(rank.granted_level));
    if (rank.granted_level < rank.wanted_level) {
      findings.add("mpi.thread-level", seen, concerned);
    } else {
      findings.fine("mpi", seen, concerned);
    }
    if (rank.wants_progress_thread && rank.granted_level < ThreadLevel::multiple)
      findings.add("mpi.progress-thread",
                   fmt::format("HYMN_PROGRESS_THREAD is on, and MPI grants level {}",
                               to_string(rank.granted_level)),
                   concerned);
  }
}

void judge_settings(const JobFacts& job, FindingList& findings) {
  if (!add_if_different("hymn.differs", "version of hymn",
                        values_of(job, [](const RankFacts& r) { return r.hymn_version; }),
                        findings))
    findings.fine("hymn", "all ranks have hymn " + job.ranks.front().hymn_version);
  for (const RankFacts& rank : job.ranks) {
    const Concerned concerned{{rank.rank}, {}};
    if (!rank.settings_problem.empty())
      findings.add("hymn.settings", rank.settings_problem, concerned);
    if (!rank.world_problem.empty()) findings.add("hymn.world", rank.world_problem, concerned);
    if (!rank.incomplete.empty()) findings.add("doctor.incomplete", rank.incomplete, concerned);
  }
}

void judge_environment(const JobFacts& job, FindingList& findings) {
  std::set<std::string> variables;
  for (const RankFacts& rank : job.ranks)
    for (const auto& [variable, value] : rank.environment) variables.insert(variable);
  std::string same;
  for (const std::string& variable : variables) {
    const auto values = values_of(job, [&](const RankFacts& rank) {
      const auto entry = rank.environment.find(variable);
      return entry == rank.environment.end() ? "not set" : "'" + entry->second + "'";
    });
    if (!add_if_different(kind_for(variable), variable, values, findings))
      same += fmt::format("{}{}={}", same.empty() ? "" : ", ", variable,
                          shortened(job.ranks.front().environment.at(variable)));
  }
  findings.fine("environment", same.empty() ? "no variable is set for all ranks alike"
                                            : "alike on all ranks: " + same);
}

void judge(const JobFacts& job, FindingList& findings) {
  judge_mpi(job, findings);
  judge_settings(job, findings);
  judge_environment(job, findings);
  judge_cpus(job, findings);
  judge_memory(job, findings);
  judge_files(job, findings);
  judge_network(job, findings);
  judge_gpus(job, findings);
  judge_limits(job, findings);
}

}  // namespace hymn
