// Looks for the variables that launchers give their processes.
#include "tools/launched.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace hymn {

namespace {

// Open MPI's mpirun, any PMIx, MPICH and srun --mpi=pmi2.
constexpr std::array mpi_ranks{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

/// By hymn run, or another launcher without MPI.
bool is_run() {
  const char* const bootstrap = std::getenv("HYMN_BOOTSTRAP");
  return bootstrap != nullptr && std::strcmp(bootstrap, "environment") == 0;
}

/// Null: this process is alone.
const char* launched_rank() {
  if (const char* const rank = std::getenv("RANK"); rank != nullptr && is_run()) return rank;
  for (const char* name : mpi_ranks)
    if (const char* const rank = std::getenv(name)) return rank;
  // Slurm numbers the processes of a step also where it starts no MPI.
  return std::getenv("SLURM_PROCID");
}

}  // namespace

bool is_launched() {
  return is_run() || std::any_of(mpi_ranks.begin(), mpi_ranks.end(),
                                 [](const char* name) { return std::getenv(name) != nullptr; });
}

bool speaks_for_all() {
  const char* const rank = launched_rank();
  return rank == nullptr || std::strcmp(rank, "0") == 0;
}

void let_the_first_rank_speak() { std::this_thread::sleep_for(std::chrono::seconds(2)); }

}  // namespace hymn
