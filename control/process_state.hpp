// What has become of a process of this host.
#pragma once

#include <string>

#include "base/private.hpp"

namespace hymn {

/// Whether there is no process with this id, as it is seen here, any more, or only what its parent
/// has not asked about yet.
bool has_ended(int pid);

/// Whether the process is stopped (by SIGSTOP, a terminal or a debugger). False where it cannot be
/// told.
HYMN_PRIVATE bool is_stopped(int pid);

/// How a process has ended that its parent has not asked about yet, in words: "killed by signal 9
/// (SIGKILL)"; empty where it cannot be told.
HYMN_PRIVATE std::string how_it_ended(int pid);

/// The same as part of a sentence: "its process was killed by signal 9 (SIGKILL)".
HYMN_PRIVATE std::string words_of_end(const std::string& how);

}  // namespace hymn
