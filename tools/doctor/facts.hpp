// What `hymn doctor` looks at, as plain values: gathered rank by rank and host by host
// (doctor_gather.hpp), judged all together on rank 0 (doctor_judge.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "tools/doctor/launcher.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// A GPU that one rank can see.
struct VisibleGpu {
  std::string id;  ///< UUID, else PCI address, else its index: equal on all ranks that see it
  std::string name;
};

struct ResourceLimits {
  std::uint64_t open_files = 0;  ///< the largest number stands for "unlimited"
  std::uint64_t processes = 0;
  std::uint64_t locked_memory = 0;
  std::uint64_t core_file = 0;
};

/// What one rank says of itself.
struct RankFacts {
  int rank = 0;
  int host = 0;  ///< index in JobFacts::hosts
  std::string hymn_version;
  std::string mpi_library;
  std::string settings_problem;  ///< why the HYMN_* variables cannot be read; empty: they can
  ThreadLevel wanted_level = ThreadLevel::multiple;
  ThreadLevel granted_level = ThreadLevel::multiple;
  bool wants_progress_thread = false;
  Environment environment;  ///< only what ranks should agree on
  CpuSet cpus;              ///< that it may run on
  ResourceLimits limits;
  std::uint64_t segment_bytes = 0;  ///< that were tried
  std::string segment_problem;      ///< why they could not be had; empty: they could
  std::vector<VisibleGpu> gpus;     ///< in CUDA's order
  int hidden_gpus = 0;              ///< by CUDA_VISIBLE_DEVICES
  std::string used_gpu;             ///< VisibleGpu::id of the one that hymn uses; empty: none
  std::string world_problem;        ///< why hymn's World could not be made or used
  std::string incomplete;           ///< what could not be looked at, and why
};

/// What jobs that have ended left in /dev/shm and in the folder for temporary files.
struct StaleFiles {
  int count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t shm_bytes = 0;        ///< of these, in /dev/shm
  std::vector<std::string> examples;  ///< a few paths
};

struct NetworkInterface {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> addresses;
};

/// How bytes came from one GPU to another.
struct GpuCopy {
  int from = 0;
  int to = 0;
  bool direct = true;   ///< peer access: not through host memory
  std::string problem;  ///< the driver's error; empty: the copy was made
  bool right = true;    ///< the bytes that arrived are those that were sent
};

/// What the first rank of a host says of the host.
struct HostFacts {
  std::string name;
  Machine machine;
  std::uint64_t shm_bytes = 0;  ///< of /dev/shm, that were tried
  std::string shm_problem;      ///< why they could not be had; empty: they could
  StaleFiles stale;
  std::vector<NetworkInterface> interfaces;
  std::vector<std::string> name_addresses;  ///< what the host's name resolves to
  std::vector<std::string> rdma_devices;
  std::string driver_version;  ///< of the GPUs; empty without a driver
  int cuda_driver = 0;         ///< 13000 for CUDA 13.0; 0: none
  int cuda_runtime = 0;        ///< the same; 0: there is no libcudart
  int nccl = 0;                ///< 22809 for NCCL 2.28.9; 0: there is no libnccl
  std::vector<GpuCopy> copies;
  double clock = 0;  ///< seconds since 1970, when all hosts looked at once
};

/// All of it. There is at least one rank, and one host.
struct JobFacts {
  std::vector<RankFacts> ranks;     ///< by rank
  std::vector<HostFacts> hosts;     ///< in order of their lowest rank
  std::uint64_t segment_bytes = 0;  ///< that each rank should be able to have

  std::vector<const RankFacts*> ranks_of(std::size_t host) const;
};

}  // namespace hymn
