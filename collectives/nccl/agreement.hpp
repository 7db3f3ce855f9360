// What ranks must know of each other's NCCL before they use it together.
#pragma once

#include <span>

#include "base/meeting.hpp"
#include "gpu/nccl_library.hpp"

namespace hymn {

/// What a rank tells the others, when a group is made.
Bytes introduce(const NcclLibrary& nccl);

/// Throws ConfigError, the same on all members, where some have no NCCL that can be used, or not
/// the same version. `members` are global ranks; `words` what each has told.
void require_same_nccl(std::span<const int> members, std::span<const Bytes> words);

}  // namespace hymn
