// Requests given to a group as users give them: by the function that has their name.
#pragma once

#include "hymn/hymn.hpp"

namespace hymn::test {

/// The blocking form. False where there is no function for this form of the call.
bool run_by_name(ProcessGroup& group, const Request& request);
/// The asynchronous form. An empty Work where there is no function for this form of the call.
Work start_by_name(ProcessGroup& group, const Request& request);

}  // namespace hymn::test
