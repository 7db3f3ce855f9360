#include "tools/bench/rival_launch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace hymn {
namespace {

bool begins_with_one_of(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

/// "a:2,b:2": slots in the order of the ranks.
std::string slots_of(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts)
    if (std::find(names.begin(), names.end(), host) == names.end()) names.push_back(host);
  std::vector<std::string> slots;
  for (const std::string& name : names)
    slots.push_back(fmt::format("{}:{}", name, std::count(hosts.begin(), hosts.end(), name)));
  return fmt::format("{}", fmt::join(slots, ","));
}

bool is_in_path(const Variables& environment, const std::string& program) {
  const auto found = environment.find("PATH");
  const std::string path = found == environment.end() ? "/usr/bin:/bin" : found->second;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

/// Whether MPICH's launcher has started this process.
bool is_of_hydra(const Variables& environment) { return environment.contains("HYDI_CONTROL_FD"); }

std::string mpirun_of(const Variables& environment) {
  const auto named = environment.find("MPIRUN");
  if (named != environment.end() && !named->second.empty()) return named->second;
  const char* const own = is_of_hydra(environment) ? "mpirun.mpich" : "mpirun.openmpi";
  return is_in_path(environment, own) ? own : "mpirun";
}

}  // namespace

Variables this_environment() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return variables;
}

std::vector<std::string> launch_command(const Variables& environment, int ranks,
                                        const std::vector<std::string>& hosts) {
  const std::string count = fmt::format("{}", ranks);
  // mpirun inside a step of Slurm sets its own variables, too.
  const bool by_hydra = is_of_hydra(environment);
  const bool by_mpirun = environment.contains("OMPI_COMM_WORLD_SIZE") || by_hydra;
  if (environment.contains("SLURM_PROCID") && !by_mpirun) {
    const char* const plugin = environment.contains("PMIX_NAMESPACE") ? "pmix" : "pmi2";
    return {"srun",         "--overlap",
            "--overcommit", "--cpu-bind=none",
            "--input=0",    fmt::format("--mpi={}", plugin),
            "-n",           count};
  }
  std::vector<std::string> command = {mpirun_of(environment)};
  if (by_hydra)
    command.insert(command.end(), {"-bind-to", "none"});
  else
    command.insert(command.end(), {"--oversubscribe", "--bind-to", "none"});
  command.insert(command.end(), {"-n", count});
  if (std::any_of(hosts.begin(), hosts.end(),
                  [&](const std::string& host) { return host != hosts.front(); }))
    command.insert(command.end(), {by_hydra ? "-hosts" : "--host", slots_of(hosts)});
  return command;
}

Variables outer_environment(const Variables& environment) {
  constexpr std::array<std::string_view, 3> of_users = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_",
                                                        "OPAL_PREFIX"};
  // What mpirun itself passes by MCA variables.
  constexpr std::array<std::string_view, 6> of_mpirun = {
      "OMPI_MCA_orte_",        "OMPI_MCA_ess",           "OMPI_MCA_pmix",
      "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME", "OMPI_MCA_mpi_yield"};
  constexpr std::array<std::string_view, 7> of_launchers = {"OMPI_",     "PMIX_", "PMI_", "HYDI_",
                                                            "MPI_LOCAL", "PRTE_", "HYMN_"};
  Variables kept;
  for (const auto& [name, value] : environment) {
    if (begins_with_one_of(name, of_mpirun)) continue;
    if (begins_with_one_of(name, of_launchers) && !begins_with_one_of(name, of_users)) continue;
    kept[name] = value;
  }
  // Whoever runs this as root runs that as root.
  if (::geteuid() == 0) {
    kept["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    kept["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  return kept;
}

}  // namespace hymn
