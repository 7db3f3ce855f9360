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

}  // namespace

bool is_launched() {
  return std::any_of(mpi_ranks.begin(), mpi_ranks.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

bool speaks_for_all() {
  for (const char* name : mpi_ranks)
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  // Slurm numbers the processes of a step also where it starts no MPI.
  const char* rank = std::getenv("SLURM_PROCID");
  return rank == nullptr || std::strcmp(rank, "0") == 0;
}

void let_the_first_rank_speak() { std::this_thread::sleep_for(std::chrono::seconds(2)); }

}  // namespace hymn
