// Machines that the command line names, and jobs imagined on them: for `hymn topo` and
// `hymn explain`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topology/imagined_places.hpp"

namespace hymn {

/// As a command line gives it.
using MachineSource = ImaginedHosts;

/// "box.xml", or "box.xml:4" for four such hosts; hwloc's XML or hymn's JSON. A file whose name
/// really ends with ":4" is taken as it is. Throws BadArguments or ConfigError.
MachineSource machine_from_file(const std::string& file_and_hosts);
/// One host as hwloc's synthetic description tells. Throws ConfigError.
MachineSource machine_from_synthetic(const std::string& description);

/// A job with this many ranks on each of `source.hosts` hosts, seen from rank 0.
JobMap imagined_job(const MachineSource& source, int ranks_per_host);

/// BadArguments: so many are not imagined.
void require_imaginable(std::size_t ranks, int hosts);

}  // namespace hymn
