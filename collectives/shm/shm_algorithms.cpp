#include "collectives/shm/shm_algorithms.hpp"

#include "collectives/shm/slot_ring.hpp"

namespace hymn {

void add_shm_algorithms(Algorithms& algorithms, const ShmGroup& group) {
  algorithms.push_back(make_all_reduce_one_shot(group));
  algorithms.push_back(make_all_reduce_swapped(group));
  algorithms.push_back(make_all_reduce_sharing(group));
  algorithms.push_back(make_all_reduce_two_shot(group));
  const auto ring = std::make_shared<SlotRing>(group);
  algorithms.push_back(make_broadcast_slots(ring));
  algorithms.push_back(make_reduce_slots(ring));
  algorithms.push_back(make_all_gather_slots(ring));
  algorithms.push_back(make_reduce_scatter_slots(ring));
  algorithms.push_back(make_barrier_flags(group));
}

}  // namespace hymn
