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
  /// Throws in a scope, at whose end a buffer that is sent and received into would be copied too
  /// late.
  void require_no_scope() const;
  /// Where both are of the one buffer; not in a scope.
  RecvStatus replace(const P2POp& send, const P2POp& recv) const;

 private:
  GroupState& group_;
  CallOptions options_;
  const void* site_;
};

}  // namespace hymn::detail
