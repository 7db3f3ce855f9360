#include "hymn/settings.hpp"

#include <fmt/format.h>

#include "base/config.hpp"
#include "gpu/presence.hpp"
#include "hymn_build_info.hpp"
#include "p2p/mpi/mpi_channel.hpp"
#include "runtime/world/tuning_library.hpp"

namespace hymn {
namespace {

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  // One of the few calls that MPI allows before it is initialised.
  if (PMPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace

std::string tuning_library() {
  return fmt::format("hymn {}, {}", build_info::version, mpi_library());
}

std::vector<Setting> settings() { return Config::from_environment().describe(); }

std::vector<BuildFact> build_facts() {
  return {
      {"hymn", build_info::version},
      {"compiler", build_info::compiler},
      {"build type", build_info::build_type},
      {"system", build_info::system},
      {"MPI standard", build_info::mpi_standard},
      {"MPI library", mpi_library()},
      {"Highway", build_info::highway},
      {"fmt", build_info::fmt},
  };
}

std::vector<BuildFact> gpu_facts() {
  const GpuPresence found = describe_presence(loaded_gpu_functions(), loaded_nccl());
  return {
      {"GPUs", found.gpus},
      {"CUDA driver", found.driver},
      {"NVML", found.nvml},
      {"NCCL", found.nccl},
  };
}

}  // namespace hymn
