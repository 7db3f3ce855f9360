#include "collectives/shm/shm_limits.hpp"

#include <fmt/format.h>

namespace hymn::shm_limits {

Verdict fits_slot(std::size_t bytes, std::size_t slot) {
  if (bytes <= slot) return Verdict::yes();
  return Verdict::no(fmt::format("more than the {} bytes of a slot", slot));
}

Verdict fits_at_once(std::size_t bytes_of_all_blocks) {
  if (bytes_of_all_blocks <= near_slot) return Verdict::yes();
  return Verdict::no(fmt::format("all blocks together are more than {} bytes", near_slot));
}

Verdict can_swap(int members) {
  if (members == 2) return Verdict::yes();
  return Verdict::no("it works only with two members");
}

Verdict can_have_rings(int members) {
  if (members <= ring_members) return Verdict::yes();
  return Verdict::no(fmt::format("more than {} members on this host", ring_members));
}

}  // namespace hymn::shm_limits
