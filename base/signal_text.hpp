// How signals are named in what hymn says.
#pragma once

#include <string>

#include "base/private.hpp"

namespace hymn {

/// "killed by signal 9 (SIGKILL)"
HYMN_PRIVATE std::string killed_by(int signal);

}  // namespace hymn
