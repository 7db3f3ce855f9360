// What all ranks have staged, folded in the order of the ranks.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

/// The result of what all ranks have staged at `offset` of their slots. Beyond the end of the data
/// it is anything.
template <class Reduction>
HYMN_KERNEL_BODY Pack fold_pack(const PeerMeeting& meeting, unsigned ranks, std::uint64_t offset) {
  using Element = typename Reduction::Element;
  constexpr unsigned width = pack_bytes / sizeof(Element);
  struct alignas(16) Elements {
    Element of[width];
  };
  typename Reduction::Accumulator folded[width];
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const Pack pack = *reinterpret_cast<const Pack*>(meeting.slot(rank) + offset);
    const auto elements = std::bit_cast<Elements>(pack);
    const std::uint32_t factor = Reduction::has_factor ? meeting.factor(rank) : 0;
    for (unsigned i = 0; i < width; ++i) {
      const auto given = Reduction::load(elements.of[i], factor);
      if (rank > 0)
        folded[i] = Reduction::combine(folded[i], given);
      else
        folded[i] = Reduction::first(given);
    }
  }
  Elements results;
  for (unsigned i = 0; i < width; ++i) results.of[i] = Reduction::store(folded[i], ranks);
  return std::bit_cast<Pack>(results);
}

/// The thread's share of folding `bytes` that all ranks have staged from `begin` of their slots on.
template <class Reduction>
HYMN_KERNEL_BODY void fold_packs(const KernelThread& at, const PeerMeeting& meeting, unsigned ranks,
                                 std::uint64_t begin, void* output, std::uint64_t bytes) {
  for (std::uint64_t i = at.index(); i < packs_in(bytes); i += at.stride()) {
    const Pack result = fold_pack<Reduction>(meeting, ranks, begin + i * pack_bytes);
    copy_some(static_cast<std::byte*>(output) + i * pack_bytes, &result, bytes_of_pack(i, bytes));
  }
}

}  // namespace hymn::cuda
