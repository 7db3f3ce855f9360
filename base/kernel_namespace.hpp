// The kernel's namespaces that a process lives in.
#pragma once

#include <cstdint>

#include "base/private.hpp"

namespace hymn {

/// What all processes have in common that share this process's namespace of a kind ("pid", "net",
/// "user"); 0: it cannot be told.
HYMN_PRIVATE std::uint64_t own_namespace(const char* kind);

}  // namespace hymn
