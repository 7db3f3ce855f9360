// With what command and environment a job inside a job is started.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace hymn {

using Variables = std::map<std::string, std::string>;

Variables this_environment();

/// The launcher that has started this process, made to start `ranks` more on `hosts` (of each rank,
/// in order): mpirun, or srun where it did.
std::vector<std::string> launch_command(const Variables& environment, int ranks,
                                        const std::vector<std::string>& hosts);

/// Without what the launcher, and hymn's settings, have told this process: the new ones are ranks
/// of another job. What the user has set for MPI stays.
Variables outer_environment(const Variables& environment);

}  // namespace hymn
