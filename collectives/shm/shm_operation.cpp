#include "collectives/shm/shm_operation.hpp"

namespace hymn {

bool rest_on(ShmChannel& channel, Operation& operation, long nanoseconds) {
  struct Bed {
    ShmChannel& channel;
    unsigned seen;
    explicit Bed(ShmChannel& c) : channel(c), seen(c.lie_down()) {}
    ~Bed() { channel.get_up(); }
  } const bed(channel);
  if (operation.step()) return true;
  channel.sleep(bed.seen, nanoseconds);
  return false;
}

bool ShmOperation::rest(long nanoseconds) {
  vain_steps_ += steps_in_a_rest;
  return rest_on(*channel_, *this, nanoseconds);
}

}  // namespace hymn
