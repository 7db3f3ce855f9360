// Which host a rank is on, and how the ranks of a job lie on their hosts.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hymn {

/// What one rank says about where it runs.
struct HostRecord {
  std::string host;     ///< equal exactly for ranks that share a host
  int usable_cpus = 1;  ///< that this process may run on
  friend bool operator==(const HostRecord&, const HostRecord&) = default;
};

/// This process's record. The host is told by its name together with the kernel's boot id:
/// containers and network namespaces may share a kernel, and clones of a machine a name.
HostRecord this_host();

/// The ranks of a job as seen from one of them.
struct Placement {
  int local_rank = 0;  ///< among the ranks of this host, in order of global ranks
  int local_size = 1;
  int host_count = 1;
  bool crowded = false;  ///< more ranks on this host than cores that they may use
};

Placement place(std::span<const HostRecord> records, int rank);

}  // namespace hymn
