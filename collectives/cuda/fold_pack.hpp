// What all ranks have staged, folded in the order of the ranks.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_meeting.hpp"

namespace hymn::cuda {

/// A pack's elements, as they are accumulated.
template <class Reduction>
class FoldedPack {
 public:
  HYMN_KERNEL_BODY explicit FoldedPack(Pack of_first_rank) {
    const auto elements = std::bit_cast<Elements>(of_first_rank);
    HYMN_UNROLLED
    for (unsigned i = 0; i < width; ++i)
      folded_[i] = Reduction::first(Reduction::load(elements.of[i]));
  }
  HYMN_KERNEL_BODY void take(Pack of_next_rank) {
    const auto elements = std::bit_cast<Elements>(of_next_rank);
    HYMN_UNROLLED
    for (unsigned i = 0; i < width; ++i)
      folded_[i] = Reduction::combine(folded_[i], Reduction::load(elements.of[i]));
  }
  HYMN_KERNEL_BODY Pack result(unsigned ranks) const {
    Elements stored;
    HYMN_UNROLLED
    for (unsigned i = 0; i < width; ++i) stored.of[i] = Reduction::store(folded_[i], ranks);
    return std::bit_cast<Pack>(stored);
  }

 private:
  using Element = typename Reduction::Element;
  static constexpr unsigned width = pack_bytes / sizeof(Element);
  struct alignas(16) Elements {
    Element of[width];
  };
  typename Reduction::Accumulator folded_[width];
};

/// What the ranks from `from` on have staged at `offset` of their slots, and at `count` - 1 places
/// behind it, `step` bytes apart: all of it is on its way at the same time.
template <unsigned wide, unsigned deep>
struct StagedPacks {
  Pack of[wide][deep];

  HYMN_KERNEL_BODY StagedPacks(const PeerMeeting& meeting, unsigned from, unsigned ranks,
                               std::uint64_t offset, std::uint64_t step, unsigned count) {
    HYMN_UNROLLED
    for (unsigned r = 0; r < wide; ++r) {
      const bool is_there = from + r < ranks;
      const std::byte* const at = meeting.slot(is_there ? from + r : from) + offset;
      HYMN_UNROLLED
      for (unsigned k = 0; k < deep; ++k)
        of[r][k] = load_pack_if(is_there && k < count, at + k * step);
    }
  }
};

/// The thread's share of folding packs [first, last), every stride()-th of them: of up to `wide`
/// ranks `deep` packs at a time.
template <class Reduction, unsigned wide, unsigned deep, class Store>
HYMN_KERNEL_BODY void fold_few_ranks(const KernelThread& at, const PeerMeeting& meeting,
                                     unsigned ranks, std::uint64_t begin, std::uint64_t first,
                                     std::uint64_t last, Store store) {
  const std::uint64_t stride = at.stride();
  for (std::uint64_t i = first + at.index(); i < last; i += deep * stride) {
    const unsigned count = packs_before<deep>(i, stride, last);
    const StagedPacks<wide, deep> packs(meeting, 0, ranks, begin + i * pack_bytes,
                                        stride * pack_bytes, count);
    HYMN_UNROLLED
    for (unsigned k = 0; k < deep; ++k) {
      if (k >= count) break;
      FoldedPack<Reduction> folded(packs.of[0][k]);
      HYMN_UNROLLED
      for (unsigned r = 1; r < wide; ++r)
        if (r < ranks) folded.take(packs.of[r][k]);
      store(i + k * stride, folded.result(ranks));
    }
  }
}

/// The same of any number of ranks, a pack of eight of them at a time.
template <class Reduction, class Store>
HYMN_KERNEL_BODY void fold_many_ranks(const KernelThread& at, const PeerMeeting& meeting,
                                      unsigned ranks, std::uint64_t begin, std::uint64_t first,
                                      std::uint64_t last, Store store) {
  constexpr unsigned wide = 8;
  using Packs = StagedPacks<wide, 1>;
  for (std::uint64_t i = first + at.index(); i < last; i += at.stride()) {
    const std::uint64_t offset = begin + i * pack_bytes;
    const Packs packs(meeting, 0, ranks, offset, 0, 1);
    FoldedPack<Reduction> folded(packs.of[0][0]);
    HYMN_UNROLLED
    for (unsigned r = 1; r < wide; ++r)
      if (r < ranks) folded.take(packs.of[r][0]);
    for (unsigned rank = wide; rank < ranks; rank += wide) {
      const Packs more(meeting, rank, ranks, offset, 0, 1);
      HYMN_UNROLLED
      for (unsigned r = 0; r < wide; ++r)
        if (rank + r < ranks) folded.take(more.of[r][0]);
    }
    store(i, folded.result(ranks));
  }
}

/// The thread's share of folding packs [first, last) that all ranks have staged from `begin` of
/// their slots on; store(i, pack) takes the results.
template <class Reduction, class Store>
HYMN_KERNEL_BODY void fold_range(const KernelThread& at, const PeerMeeting& meeting, unsigned ranks,
                                 std::uint64_t begin, std::uint64_t first, std::uint64_t last,
                                 Store store) {
  // As much on its way as keeps all of it in registers.
  if (ranks <= 4)
    fold_few_ranks<Reduction, 4, 2>(at, meeting, ranks, begin, first, last, store);
  else
    fold_many_ranks<Reduction>(at, meeting, ranks, begin, first, last, store);
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
