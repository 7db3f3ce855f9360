// What ranks must know of each other's NCCL before they use it together.
#pragma once

#include <span>
#include <string>

#include "base/meeting.hpp"
#include "gpu/nccl_library.hpp"

namespace hymn {

/// What a rank tells the others, when a group is made.
Bytes introduce(const NcclLibrary& nccl);

/// The first member that has no NCCL that can be used, and why; empty: all have one. `members` are
/// global ranks; `words` what each has told.
std::string who_lacks_nccl(std::span<const int> members, std::span<const Bytes> words);

/// Throws ConfigError, the same on all members, where some have none, or not the same version.
void require_same_nccl(std::span<const int> members, std::span<const Bytes> words);

}  // namespace hymn
