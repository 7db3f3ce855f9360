// What stands behind a PreparedCall.
#pragma once

#include <memory>

#include "hymn/prepared_call.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_parts.hpp"

namespace hymn::detail {

/// Never changes.
class PreparedState {
 public:
  /// Throws what is wrong with the call, and where nothing can carry it. A rank that is not a
  /// member is warned when it makes the call.
  PreparedState(GroupState& group, const Request& request, const CallOptions& options);

  /// `site`: where the call returns to in the user's code.
  RecvStatus run(const void* site) const;
  Work start(const void* site) const;

 private:
  ReadyCall make_ready() const;

  std::shared_ptr<GroupState> group_;
  OwnedRequest request_;
  CallOptions options_;
  /// Empty for what has to be looked at each time: memory of GPUs, streams, views of complex
  /// elements as pairs.
  ReadyCall ready_;
};

}  // namespace hymn::detail
