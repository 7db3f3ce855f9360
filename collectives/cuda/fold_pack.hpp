// What all ranks have staged, folded in the order of the ranks.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

/// The results of what all ranks have staged at `offset` of their slots, and at `count` - 1 places
/// behind it, `step` bytes apart. Beyond the end of the data they are anything.
template <class Reduction, unsigned count>
HYMN_KERNEL_BODY void fold_at_once(const PeerMeeting& meeting, unsigned ranks, std::uint64_t offset,
                                   std::uint64_t step, Pack* results) {
  using Element = typename Reduction::Element;
  constexpr unsigned width = pack_bytes / sizeof(Element);
  struct alignas(16) Elements {
    Element of[width];
  };
  typename Reduction::Accumulator folded[count][width];
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const std::byte* const from = meeting.slot(rank) + offset;
    Pack packs[count];
    HYMN_UNROLLED
    for (unsigned k = 0; k < count; ++k) packs[k] = *reinterpret_cast<const Pack*>(from + k * step);
    HYMN_UNROLLED
    for (unsigned k = 0; k < count; ++k) {
      const auto elements = std::bit_cast<Elements>(packs[k]);
      for (unsigned i = 0; i < width; ++i) {
        const auto given = Reduction::load(elements.of[i]);
        folded[k][i] = rank > 0 ? Reduction::combine(folded[k][i], given) : Reduction::first(given);
      }
    }
  }
  HYMN_UNROLLED
  for (unsigned k = 0; k < count; ++k) {
    Elements stored;
    for (unsigned i = 0; i < width; ++i) stored.of[i] = Reduction::store(folded[k][i], ranks);
    results[k] = std::bit_cast<Pack>(stored);
  }
}

/// The thread's share of folding packs [first, last) that all ranks have staged from `begin` of
/// their slots on; store(i, pack) takes the results.
template <class Reduction, class Store>
HYMN_KERNEL_BODY void fold_range(const KernelThread& at, const PeerMeeting& meeting, unsigned ranks,
                                 std::uint64_t begin, std::uint64_t first, std::uint64_t last,
                                 Store store) {
  // As many as keep what is folded in registers.
  constexpr unsigned count = 2;
  const std::uint64_t step = at.stride() * pack_bytes;
  std::uint64_t i = first + at.index();
  Pack results[count];
  for (; i + (count - 1) * at.stride() < last; i += count * at.stride()) {
    fold_at_once<Reduction, count>(meeting, ranks, begin + i * pack_bytes, step, results);
    HYMN_UNROLLED
    for (unsigned k = 0; k < count; ++k) store(i + k * at.stride(), results[k]);
  }
  for (; i < last; i += at.stride()) {
    fold_at_once<Reduction, 1>(meeting, ranks, begin + i * pack_bytes, step, results);
    store(i, results[0]);
  }
}

/// The same of `bytes`, the results of which follow each other in `output`.
template <class Reduction>
HYMN_KERNEL_BODY void fold_packs(const KernelThread& at, const PeerMeeting& meeting, unsigned ranks,
                                 std::uint64_t begin, void* output, std::uint64_t bytes) {
  const auto store = [=](std::uint64_t i, Pack result) {
    put_pack(static_cast<std::byte*>(output) + i * pack_bytes, result, bytes_of_pack(i, bytes));
  };
  fold_range<Reduction>(at, meeting, ranks, begin, 0, packs_in(bytes), store);
}

}  // namespace hymn::cuda
