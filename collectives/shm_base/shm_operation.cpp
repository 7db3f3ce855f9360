#include "collectives/shm_base/shm_operation.hpp"

namespace hymn {

bool ShmOperation::rest(long nanoseconds) {
  vain_steps_ += steps_in_a_rest;
  return rest_on(*channel_, *this, nanoseconds);
}

}  // namespace hymn
