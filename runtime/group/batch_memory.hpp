// What memory the messages of a batch use.
#pragma once

#include "runtime/group/group_members.hpp"
#include "runtime/group/work_parts.hpp"

namespace hymn::detail {

/// Throws UsageError where a message is received into memory that another one of the batch uses.
void require_apart(const WorkParts& parts, const GroupMembers& members);

}  // namespace hymn::detail
