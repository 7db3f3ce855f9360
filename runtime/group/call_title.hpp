// How a call is named in messages, and what of it matters to who takes part.
#pragma once

#include <string>

#include "collectives/algorithm.hpp"
#include "runtime/group/gone_members.hpp"

namespace hymn::detail {

inline PendingOp pending_of(const Call& call) {
  return {call.request->type, call.sequence, call.peer};
}
/// "all_reduce #41"
std::string title_of(const PendingOp& op);
inline std::string title_of(const Call& call) { return title_of(pending_of(call)); }

}  // namespace hymn::detail
