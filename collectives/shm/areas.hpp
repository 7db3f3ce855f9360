// Which areas the algorithms over shared memory have in a region.
#pragma once

#include "collectives/hierarchical/hierarchy.hpp"
#include "p2p/shm/message_ring.hpp"

namespace hymn {

/// Each algorithm has areas of its own: flags and slots that two of them shared would be counted by
/// one and overtaken by the other. Indices into `plan`.
struct ShmAreas {
  RegionPlan plan;
  int control_block = -1;
  int one_shot = -1;
  int swapped = -1;
  int two_shot_flags = -1;
  int two_shot_slots = -1;
  int sharing_flags = -1;
  int sharing_slots = -1;
  int barrier = -1;
  int direct = -1;
  int ring = -1;
  int ring_large = -1;
  HierarchyAreas hierarchy;  ///< where the group spans hosts
  RingAreas mail;            ///< of sends and receives
  RingAreas moves;           ///< of gather, scatter and all_to_all

  /// The same for every member on this host, of which the group has so many.
  static ShmAreas for_members(int members, bool spans_hosts);
};

}  // namespace hymn
