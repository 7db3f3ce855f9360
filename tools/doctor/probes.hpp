// What `hymn doctor` tries out and looks up on this host.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/facts.hpp"

namespace hymn {

/// Allocates so much memory as segments are, and gives it back. Empty, or why it cannot be had. A
/// size above RLIMIT_FSIZE raises SIGXFSZ, which the caller has to ignore.
std::string try_segment(std::uint64_t bytes);
/// The same with a file in a folder, as MPI makes them in /dev/shm. Leaves nothing behind.
std::string try_file(const std::string& folder, std::uint64_t bytes);

ResourceLimits read_limits();
std::vector<NetworkInterface> read_interfaces();
/// Of this host's name; empty when it cannot be resolved.
std::vector<std::string> read_name_addresses();
/// The names in /sys/class/infiniband.
std::vector<std::string> read_rdma_devices();

/// Where stale files are looked for, and what is known of the processes that may use them.
struct StaleSearch {
  std::string shm = "/dev/shm";
  std::string temporary;  ///< TMPDIR
  /// Younger files may belong to a job that is about to start.
  std::chrono::seconds youngest{60};
};

/// Files and folders of this user (of all users, for root) with names that MPI, NCCL, PSM and
/// semaphores use, and that no process holds. Nothing is deleted.
StaleFiles find_stale(const StaleSearch& search);

}  // namespace hymn
