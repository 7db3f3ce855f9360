// Processes of this host, and the memory of flight recorders in them.
#pragma once

#include <string>
#include <vector>

#include "p2p/shm/nameless_memory.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn::trace {

/// A recorder's memory that a process holds.
struct FoundRecorder {
  int pid = 0;  ///< as it is seen here
  SharedMapping memory;
  RecorderView view() const { return RecorderView({memory.base(), memory.bytes()}); }
};

enum class Access : unsigned char { open, forbidden, gone };
Access access_to(int pid);

/// It has ended its world on its side.
bool has_left(const RecorderHeader& header);

/// Those of a process's own worlds, which have not ended. What it holds of another version of hymn
/// is told in `problem`.
std::vector<FoundRecorder> recorders_of(int pid, std::string* problem = nullptr);

/// All that can be seen.
std::vector<int> all_processes();
/// Whether `pid` was started by `ancestor`, or by what that has started.
bool descends_from(int pid, int ancestor);
/// "solver"; empty: not known.
std::string program_of(int pid);

}  // namespace hymn::trace
