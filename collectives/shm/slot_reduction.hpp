// What the reductions over a SlotRing have in common.
#pragma once

#include "collectives/shm/slot_operation.hpp"

namespace hymn {

class SlotReduction : public SlotOperation {
 protected:
  SlotReduction(SlotRing& ring, const Call& call)
      : SlotOperation(ring, call),
        reducer_(reducer_for(request().inputs.dtype(), request().op, ring.reproducibility())) {}

  std::size_t element_bytes() const { return reducer_.element_bytes; }
  /// Folds, in rank order, this member's `own` and what the others show in a round from `offset`
  /// on. False, and nothing is done, while somebody shows nothing.
  bool fold(std::uint64_t round, const std::byte* own, std::size_t offset, std::byte* out,
            std::size_t bytes, bool stream) {
    return fold_first(size(), round, own, offset, out, bytes, stream);
  }
  /// The same of the first so many members, with or without this one.
  bool fold_first(int members, std::uint64_t round, const std::byte* own, std::size_t offset,
                  std::byte* out, std::size_t bytes, bool stream);

 private:
  Reducer reducer_;
  int seen_ = 0;  ///< so many of the first members have shown their data
};

}  // namespace hymn
