// The algorithms over shared memory.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/shm/areas.hpp"
#include "p2p/shm/shm_mail.hpp"

namespace hymn {

/// What an algorithm is made from. The channel's members are all members of the group.
struct ShmGroup {
  std::shared_ptr<ShmChannel> channel;
  std::shared_ptr<ShmMail> mail;  ///< the channel's only one: it counts what is in its rings
  ShmAreas areas;
  GroupShape shape;
};

// Bytes that each member has for each algorithm.
std::size_t one_shot_bytes(int members);
std::size_t swapped_bytes(int members);
std::size_t two_shot_flag_bytes(int members);
std::size_t two_shot_slot_bytes(int members);
std::size_t sharing_flag_bytes(int members);
std::size_t sharing_slot_bytes(int members);
std::size_t barrier_bytes();

std::unique_ptr<Algorithm> make_all_reduce_two_shot(const ShmGroup& group);
std::unique_ptr<Algorithm> make_all_reduce_sharing(const ShmGroup& group);
std::unique_ptr<Algorithm> make_barrier_flags(const ShmGroup& group);
std::unique_ptr<Algorithm> make_move_rings(const ShmGroup& group);
std::unique_ptr<Algorithm> make_send_recv_rings(std::shared_ptr<ShmMail> mail);

/// These take turns on one ring.
class SlotRing;
std::unique_ptr<Algorithm> make_broadcast_slots(std::shared_ptr<SlotRing> ring);
std::unique_ptr<Algorithm> make_reduce_slots(std::shared_ptr<SlotRing> ring);
std::unique_ptr<Algorithm> make_all_gather_slots(std::shared_ptr<SlotRing> ring);
std::unique_ptr<Algorithm> make_reduce_scatter_slots(std::shared_ptr<SlotRing> ring);
std::unique_ptr<Algorithm> make_scan_slots(std::shared_ptr<SlotRing> ring);
std::unique_ptr<Algorithm> make_exscan_slots(std::shared_ptr<SlotRing> ring);
std::unique_ptr<Algorithm> make_scatter_slots(std::shared_ptr<SlotRing> ring);

/// All of them, in order of preference.
void add_shm_algorithms(Algorithms& algorithms, const ShmGroup& group);

}  // namespace hymn
