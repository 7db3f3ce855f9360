// Machines that the command line names, and jobs imagined on them: for `hymn topo` and
// `hymn explain`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topology/placement.hpp"

namespace hymn {

/// One kind of machine, and how many hosts are of it.
struct MachineSource {
  std::shared_ptr<const Machine> machine;
  int hosts = 1;
};

/// "box.xml", or "box.xml:4" for four such hosts; hwloc's XML or hymn's JSON. A file whose name
/// really ends with ":4" is taken as it is. Throws BadArguments or ConfigError.
MachineSource machine_from_file(const std::string& file_and_hosts);
/// One host as hwloc's synthetic description tells. Throws ConfigError.
MachineSource machine_from_synthetic(const std::string& description);

/// Equal shares of the cores that the machine grants, in the order of its CPUs; all cores for each
/// rank where ranks outnumber cores.
std::vector<RankRecord> spread_ranks(const Machine& machine, int ranks, int first_rank = 0);

/// A job with this many ranks on each of `source.hosts` hosts, seen from rank 0.
JobMap imagined_job(const MachineSource& source, int ranks_per_host);

/// "node3" of an imagined job, or the machine's own name when it is the only host.
std::string imagined_host_name(const MachineSource& source, int host);

/// The most hosts, and ranks on one host, that the commands imagine.
inline constexpr int most_hosts = 65536;
inline constexpr int most_ranks_per_host = 4096;
/// BadArguments: so many are not imagined.
void require_imaginable(std::size_t ranks, int hosts);

}  // namespace hymn
