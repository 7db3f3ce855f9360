// How this process was started, as far as its environment tells: known before MPI starts, which may
// be too late for words.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/mpi_flavour.hpp"
#include "tools/doctor/findings.hpp"

namespace hymn {

using Environment = std::map<std::string, std::string>;

Environment environment_of_this_process();

enum class Launcher : unsigned char { none, open_mpi, hydra, slurm };

struct LauncherFacts {
  Launcher launcher = Launcher::none;
  int tasks = 1;    ///< that it has started
  int rank = 0;     ///< this one's number
  std::string pmi;  ///< how tasks find each other: "pmix", "pmi2", "pmi1", or "" for none
  MpiFlavour flavour = MpiFlavour::other;
  std::string library;  ///< MPI's own name for itself
};

/// `library` is the first line of MPI_Get_library_version.
LauncherFacts read_launcher(const Environment& environment, const std::string& library);

/// "srun --mpi=pmix, 4 tasks"
std::string describe(const LauncherFacts& facts);

/// Whether MPI can find its ranks, told before it is initialised: it would end the process.
void judge_launcher(const LauncherFacts& facts, FindingList& findings);
/// The same when MPI has been initialised and sees `mpi_size` ranks.
void judge_world_size(const LauncherFacts& facts, int mpi_size, FindingList& findings);

}  // namespace hymn
