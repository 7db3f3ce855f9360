#include "collectives/shm/slot_reduction.hpp"

namespace hymn {

bool SlotReduction::fold_first(int members, std::uint64_t round, const std::byte* own,
                               std::size_t offset, std::byte* out, std::size_t bytes, bool stream) {
  for (; seen_ < members; ++seen_)
    if (seen_ != rank() && shown(seen_, round) == nullptr) return false;
  seen_ = 0;
  std::array<const void*, SlotRing::most_members> inputs;
  std::array<double, SlotRing::most_members> factors;
  const bool scaled = request().op.kind() == ReduceKind::premul_sum;
  for (int member = 0; member < members; ++member) {
    const auto index = static_cast<std::size_t>(member);
    inputs[index] = member == rank() ? own : shown(member, round) + offset;
    if (scaled) factors[index] = member == rank() ? request().op.factor() : factor(member, round);
  }
  reduce_all(reducer_, inputs.data(), members, out, bytes / reducer_.element_bytes,
             scaled ? factors.data() : nullptr, {.stream = stream});
  return true;
}

}  // namespace hymn
