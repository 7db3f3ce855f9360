#include "collectives/shm/shm_algorithms.hpp"

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/shm/direct.hpp"
#include "collectives/shm/shm_models.hpp"
#include "collectives/shm/shown_slots.hpp"
#include "collectives/shm/slot_ring.hpp"
#include "p2p/shm/shm_port.hpp"

namespace hymn {

void add_shm_algorithms(Algorithms& algorithms, const ShmGroup& group) {
  const auto forms = std::make_shared<DirectForms>(group);
  const int members = group.channel->size();
  const auto one_shot = ShownSlots::one_shot(group);
  const auto swapped = ShownSlots::swapped(group);
  const auto add_shown = [&algorithms](const AlgorithmModel& model, const auto& slots) {
    algorithms.push_back(std::make_unique<ShownAlgorithm>(model, slots));
  };
  add_shown(shm_models::one_shot, one_shot);
  add_shown(shm_models::swapped, swapped);
  add_shown(shm_models::shown, members == 2 ? swapped : one_shot);
  algorithms.push_back(direct_or(forms, make_all_reduce_sharing(group)));
  algorithms.push_back(direct_or(forms, make_all_reduce_two_shot(group)));
  const auto ring = std::make_shared<SlotRing>(group);
  algorithms.push_back(direct_or(forms, make_broadcast_slots(ring)));
  algorithms.push_back(direct_or(forms, make_reduce_slots(ring)));
  algorithms.push_back(direct_or(forms, make_all_gather_slots(ring)));
  algorithms.push_back(direct_or(forms, make_reduce_scatter_slots(ring)));
  algorithms.push_back(make_scan_slots(ring));
  algorithms.push_back(make_exscan_slots(ring));
  algorithms.push_back(make_scatter_slots(ring));
  algorithms.push_back(make_barrier_flags(group));
  algorithms.push_back(direct_or(forms, make_move_rings(group)));
  algorithms.push_back(make_send_recv_rings(group.mail));
  // For what those above leave over.
  const auto port = make_shm_port(group.mail);
  algorithms.push_back(make_reduce_pairwise(shm_models::pairwise, port, group.shape));
  algorithms.push_back(make_move_pairwise(shm_models::pairwise, port, group.shape));
  algorithms.push_back(make_barrier_pairwise(shm_models::pairwise, port, group.shape));
}

}  // namespace hymn
