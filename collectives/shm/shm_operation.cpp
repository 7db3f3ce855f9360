#include "collectives/shm/shm_operation.hpp"

namespace hymn {

bool ShmOperation::rest(long nanoseconds) {
  struct Bed {
    ShmChannel& channel;
    unsigned seen;
    explicit Bed(ShmChannel& c) : channel(c), seen(c.lie_down()) {}
    ~Bed() { channel.get_up(); }
  } const bed(*channel_);
  if (step()) return true;
  channel_->sleep(bed.seen, nanoseconds);
  return false;
}

}  // namespace hymn
