// Looks for messages that wait to be received.
#pragma once

#include <optional>

#include "runtime/group/group_state.hpp"

namespace hymn::detail {

/// Of one call.
class MessageProbe {
 public:
  MessageProbe(GroupState& group, int source, int tag)
      : group_(group), request_(Request::probe(source, tag)) {}

  /// `site`: where the call returns to in the user's code.
  MessageInfo wait(const CallOptions& options, const void* site) const;
  std::optional<MessageInfo> look() const;

 private:
  std::optional<MessageInfo> look_once() const;

  GroupState& group_;
  Request request_;
};

}  // namespace hymn::detail
