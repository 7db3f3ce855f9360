// A send and a receive as one blocking call.
#pragma once

#include "runtime/group/group_state.hpp"

namespace hymn::detail {

/// Of one call.
class SendRecv {
 public:
  /// `site`: where the call returns to in the user's code.
  SendRecv(GroupState& group, const CallOptions& options, const void* site)
      : group_(group), options_(options), site_(site) {}

  Work start(const P2POp& send, const P2POp& recv) const;
  /// What came; nothing on a stream, and on a rank outside.
  RecvStatus run(const P2POp& send, const P2POp& recv) const;
  /// Where both are of the one buffer.
  RecvStatus replace(const P2POp& send, const P2POp& recv) const;

 private:
  GroupState& group_;
  const CallOptions& options_;
  const void* site_;
};

}  // namespace hymn::detail
