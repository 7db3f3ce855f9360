// What stays behind of a message that is lost.
#pragma once

#include "p2p/operation.hpp"

namespace hymn {

/// Of a message that cannot be taken back: the group is of no more use, but nothing is in flight.
class LostMessage final : public AbandonedOperation {
 public:
  bool done() override { return true; }
};

}  // namespace hymn
