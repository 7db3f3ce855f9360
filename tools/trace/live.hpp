// What running processes of a job have recorded, read in their memory: they need not be asked, and
// may be stopped.
#pragma once

#include <string>

#include "tools/trace/files.hpp"

namespace hymn::trace {

/// The records of the job that the process `pid`, or one that it has started, takes part in, of all
/// of its ranks that run on this host. `job` as for load_dumps(). Where `dump` is not empty, they
/// are written there, too: to a folder, or to files that begin so. Throws BadArguments, which says
/// what is wrong, when there are none.
LoadedDumps load_live(int pid, const std::string& job, const std::string& dump);

}  // namespace hymn::trace
