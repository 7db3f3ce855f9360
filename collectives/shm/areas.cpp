#include "collectives/shm/areas.hpp"

#include "collectives/shm/direct_board.hpp"
#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/slot_ring.hpp"
#include "p2p/shm/channel.hpp"

namespace hymn {

ShmAreas ShmAreas::for_members(int members, bool spans_hosts) {
  constexpr auto at_once = RegionPlan::Reserve::at_once;
  constexpr auto on_demand = RegionPlan::Reserve::on_demand;
  ShmAreas areas;
  areas.control_block = ShmChannel::add_control_block(areas.plan);
  areas.one_shot = areas.plan.add(one_shot_bytes(members), at_once);
  areas.swapped = areas.plan.add(swapped_bytes(members), at_once);
  areas.two_shot_flags = areas.plan.add(two_shot_flag_bytes(members), at_once);
  areas.sharing_flags = areas.plan.add(sharing_flag_bytes(members), at_once);
  areas.barrier = areas.plan.add(barrier_bytes(), at_once);
  areas.ring = areas.plan.add(SlotRing::fixed_area_bytes(members), at_once);
  if (spans_hosts) areas.hierarchy.add_first(areas.plan);
  areas.direct = areas.plan.add(DirectBoard::area_bytes(), at_once);
  // Behind these: areas that are reserved when they are first used.
  areas.two_shot_slots = areas.plan.add(two_shot_slot_bytes(members), on_demand);
  areas.sharing_slots = areas.plan.add(sharing_slot_bytes(members), on_demand);
  areas.ring_large = areas.plan.add(SlotRing::large_area_bytes(), on_demand);
  if (spans_hosts) areas.hierarchy.add_large(areas.plan);
  areas.mail = RingAreas::add_to(areas.plan, members);
  areas.moves = RingAreas::add_to(areas.plan, members);
  return areas;
}

}  // namespace hymn
