// What a rank sends to itself in a batch.
#pragma once

#include "runtime/group/group_members.hpp"
#include "runtime/group/work_parts.hpp"

namespace hymn::detail {

/// Finds for each receive from the own rank among `parts` the send to it that it takes, by tag and
/// order, and makes the operations of both. A receive from any source takes none of them. Throws
/// UsageError where one has no other, is longer than its buffer, or overlaps it, and
/// UnsupportedError for buffers that the host cannot copy.
void prepare_self_messages(const WorkParts& parts, const GroupMembers& members);

}  // namespace hymn::detail
