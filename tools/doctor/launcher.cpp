// Reads the launcher's variables, and judges whether the MPI library understands them.
#include "tools/doctor/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

namespace hymn {
namespace {

bool has(const Environment& environment, const std::string& name) {
  return environment.contains(name);
}

int number(const Environment& environment, const std::string& name, int otherwise) {
  const auto entry = environment.find(name);
  if (entry == environment.end()) return otherwise;
  int value = otherwise;
  const std::string& text = entry->second;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string pmi_of(const Environment& environment) {
  if (has(environment, "PMIX_NAMESPACE")) return "pmix";
  if (!has(environment, "PMI_FD") && !has(environment, "PMI_PORT")) return "";
  // Slurm says which; the others start with PMI-1, and agree on more when they connect.
  const auto type = environment.find("SLURM_MPI_TYPE");
  return type == environment.end() ? "pmi1" : type->second;
}

bool understands(MpiFlavour flavour, const std::string& pmi) {
  if (flavour == MpiFlavour::open_mpi) return pmi == "pmix";
  return true;  // MPICH is built for any of them: what it sees when it has started tells
}

}  // namespace

Environment environment_of_this_process() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

LauncherFacts read_launcher(const Environment& environment, const std::string& library) {
  LauncherFacts facts;
  facts.library = library;
  facts.flavour = flavour_of(library);
  facts.pmi = pmi_of(environment);
  // A launcher of MPI may itself run inside a step of Slurm: it is asked first.
  if (has(environment, "OMPI_COMM_WORLD_SIZE")) {
    facts.launcher = Launcher::open_mpi;
    facts.tasks = number(environment, "OMPI_COMM_WORLD_SIZE", 1);
    facts.rank = number(environment, "OMPI_COMM_WORLD_RANK", 0);
  } else if (has(environment, "SLURM_STEP_NUM_TASKS") && has(environment, "SLURM_PROCID") &&
             !has(environment, "HYDI_CONTROL_FD")) {
    facts.launcher = Launcher::slurm;
    facts.tasks = number(environment, "SLURM_STEP_NUM_TASKS", 1);
    facts.rank = number(environment, "SLURM_PROCID", 0);
  } else if (has(environment, "PMI_SIZE")) {
    facts.launcher = Launcher::hydra;
    facts.tasks = number(environment, "PMI_SIZE", 1);
    facts.rank = number(environment, "PMI_RANK", 0);
  }
  return facts;
}

std::string describe(const LauncherFacts& facts) {
  const auto tasks = fmt::format("{} task{}", facts.tasks, facts.tasks == 1 ? "" : "s");
  switch (facts.launcher) {
    case Launcher::none:
      return "no launcher";
    case Launcher::open_mpi:
      return "mpirun of Open MPI, " + tasks;
    case Launcher::hydra:
      return "mpiexec of MPICH (Hydra), " + tasks;
    case Launcher::slurm:
      return fmt::format("srun --mpi={}, {}", facts.pmi.empty() ? "none" : facts.pmi, tasks);
  }
  return "?";
}

void judge_launcher(const LauncherFacts& facts, FindingList& findings) {
  if (facts.launcher != Launcher::slurm) return;
  if (!understands(facts.flavour, facts.pmi))
    findings.add("launcher.mismatch",
                 fmt::format("{}, but the program is linked with {}, which needs PMIx",
                             describe(facts), facts.library));
}

void judge_world_size(const LauncherFacts& facts, int mpi_size, FindingList& findings) {
  if (mpi_size == 1 && facts.tasks > 1) {
    findings.add("launcher.singletons",
                 fmt::format("{}, but {} sees one rank only", describe(facts), facts.library));
  } else {
    findings.fine("launcher", fmt::format("{}; {} sees {} rank{}", describe(facts), facts.library,
                                          mpi_size, mpi_size == 1 ? "" : "s"));
  }
}

}  // namespace hymn
