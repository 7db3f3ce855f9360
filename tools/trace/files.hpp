// Which files a command line means, and the job in them.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/dump.hpp"

namespace hymn::trace {

/// A file of which something has to be said.
struct FileNote {
  std::string file;
  std::string text;
  bool is_lost = false;  ///< nothing of it was used
};

struct LoadedDumps {
  std::vector<Dump> dumps;  ///< of one job, one for a rank
  std::vector<FileNote> notes;
};

/// A file, a folder (all files in it whose names end with a digit), or the beginning of names that
/// go on with a number. Throws BadArguments when there is nothing of that name.
std::vector<std::string> files_named(const std::vector<std::string>& names);

/// Reads them all. `job` is "" or the one to take where there are several: its id, or the beginning
/// of it, and after a colon its number of ranks. Throws BadArguments, which names the files, when
/// nothing can be used or several jobs are mixed.
LoadedDumps load_dumps(const std::vector<std::string>& files, const std::string& job);

/// The same for dumps that were read already.
LoadedDumps choose_dumps(std::vector<Dump> dumps, const std::string& job);

}  // namespace hymn::trace
