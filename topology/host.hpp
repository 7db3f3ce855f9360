// Which host this process is on.
#pragma once

#include <string>

#include "base/private.hpp"

namespace hymn {

/// As the kernel calls it; "unknown" where it does not tell.
HYMN_PRIVATE std::string host_name();

/// Equal exactly for processes that share a host: its name together with the kernel's boot id, for
/// containers and network namespaces may share a kernel, and clones of a machine a name.
std::string host_key();

}  // namespace hymn
