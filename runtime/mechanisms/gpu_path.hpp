// Groups that are to use nothing but GPUs.
#pragma once

#include "base/paths.hpp"
#include "topology/placement.hpp"

namespace hymn {

/// Whether all other paths are forbidden.
bool leaves_only(std::string_view path, const PathPolicy& policy);

/// Throws ConfigError where `policy` leaves no other path than NCCL, and that cannot serve a group
/// with this layout: all its members find the same.
void require_gpu_path(const PathPolicy& policy, const GroupLayout& layout);

}  // namespace hymn
