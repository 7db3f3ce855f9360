// What a rank does that leaves the others in the middle of what they do together.
#pragma once

#include <exception>
#include <span>
#include <string>

#include "hymn/process_group.hpp"

namespace hymn::detail {

/// Gives up those of these groups that this rank is in, because of this error, so that nobody waits
/// for it: the others hear of this rank and of the error's words, or of those whose fault the error
/// says it is. `what` names what it leaves: "join".
void give_up_groups(std::span<const ProcessGroup> groups, const std::exception_ptr& error,
                    const std::string& what);

}  // namespace hymn::detail
