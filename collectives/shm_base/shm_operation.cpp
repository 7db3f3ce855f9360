#include "collectives/shm_base/shm_operation.hpp"

namespace hymn {

bool ShmOperation::park(long nanoseconds) {
  vain_steps_ += steps_in_a_park;
  return park_on(*channel_, *this, nanoseconds);
}

}  // namespace hymn
