// How much one step of a large collective does: between steps its caller looks at deadlines and
// aborts, and at what else is in flight.
#pragma once

#include <cstddef>

#include "p2p/shm/channel.hpp"

namespace hymn {

class StepBudget {
 public:
  /// About a millisecond's work, against which a step costs nothing.
  static constexpr std::size_t bytes = std::size_t{4} << 20;

  void begin() { moved_ = 0; }
  void add(std::size_t moved) { moved_ += moved; }
  bool is_done() const { return moved_ >= bytes; }
  /// False, for a step that ends here although it could go on: whoever is about to sleep until a
  /// peer does something, see ShmOperation::park(), does not.
  static bool go_on_later(ShmChannel& channel) {
    channel.wake_sleepers();
    return false;
  }

 private:
  std::size_t moved_ = 0;
};

}  // namespace hymn
