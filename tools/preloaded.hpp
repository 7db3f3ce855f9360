// Programs under libhymn-preload.so.
#pragma once

#include <string>
#include <vector>

namespace hymn {

/// Where libhymn-preload.so is: beside libhymn.so. Throws UnsupportedError where it is not.
std::string preload_library();

/// `hymn preload`: where it is.
int preload_command();

/// Whether this program starts others as ranks of MPI: mpirun, mpiexec, srun and their kin.
bool is_mpi_launcher(const std::string& program);

/// `hymn run` of such a program: becomes it, and has its ranks load the library. Does not return;
/// throws UnsupportedError where it cannot be started.
int run_preloaded(std::vector<std::string> command);

}  // namespace hymn
