// reduce_scatter: each member shows what it has for the others, and folds what all have for it.

#include <algorithm>

#include "collectives/shm/slot_reduction.hpp"

namespace hymn {
namespace {

class ReduceScatter final : public SlotReduction {
 public:
  static constexpr OpType type = OpType::reduce_scatter;

  ReduceScatter(SlotRing& ring, const Call& call) : SlotReduction(ring, call) {
    const InputBlocks& inputs = request().inputs;
    if (inputs.layout() == Layout::equal) {
      total_ = inputs.flat().bytes();
      longest_ = total_ / static_cast<std::size_t>(size());
      own_begin_ = longest_ * static_cast<std::size_t>(rank());
      own_ = inputs.block(rank(), size());
    } else {
      inputs.for_each(size(), [this](int member, const ConstBufferView& block) {
        if (member == rank()) {
          own_ = block;
          own_begin_ = total_;
        }
        total_ += block.bytes();
        longest_ = std::max(longest_, block.bytes());
        mix(block.bytes());
      });
    }
  }

 private:
  std::size_t shown_bytes() const override { return total_; }

  RoundPlan plan_rounds(std::size_t room) override {
    is_whole_ = total_ <= room;
    const std::size_t each = room / static_cast<std::size_t>(size());
    piece_ = is_whole_ ? std::max<std::size_t>(longest_, 1) : (each - part_margin) / 64 * 64;
    const std::uint64_t rounds = pieces_of(longest_, piece_);
    return {.rounds = rounds, .to_give = rounds};
  }

  void give(std::uint64_t round) override {
    const InputBlocks& inputs = request().inputs;
    std::byte* const to = room(round, inputs.views().front().data);
    if (is_whole_ && inputs.layout() != Layout::list) {
      copy_bytes(to, inputs.flat().data, total_, false);
    } else {
      const std::size_t done = index(round) * piece_;
      std::size_t begin = 0;
      inputs.for_each(size(), [&](int member, const ConstBufferView& block) {
        const std::size_t bytes = block.bytes();
        if (member != rank() && done < bytes)
          copy_bytes(to + place_of(member, begin), static_cast<const std::byte*>(block.data) + done,
                     std::min(piece_, bytes - done), false);
        begin += bytes;
      });
    }
    show(round);
  }

  bool take() override {
    const std::size_t done = index(taken_) * piece_;
    if (done >= own_.bytes()) {
      taken_ = end_round();
      return true;
    }
    if (!fold(taken_, static_cast<const std::byte*>(own_.data) + done, place_of(rank(), own_begin_),
              static_cast<std::byte*>(request().outputs.flat().data) + done,
              std::min(piece_, own_.bytes() - done), should_stream(own_.bytes())))
      return false;
    ++taken_;
    return true;
  }

  /// Where the part for a member lies in a slot, when its block begins so many bytes behind the
  /// first one: as far from a line as in the member's own buffer.
  std::size_t place_of(int member, std::size_t begin) const {
    if (is_whole_) return begin;
    return static_cast<std::size_t>(member) * (piece_ + part_margin) + begin % 64;
  }
  static constexpr std::size_t part_margin = 128;

  ConstBufferView own_;
  std::size_t own_begin_ = 0;
  std::size_t longest_ = 0;
  std::size_t total_ = 0;
  std::size_t piece_ = 0;
  bool is_whole_ = true;
};

}  // namespace

std::unique_ptr<Algorithm> make_reduce_scatter_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<SlotAlgorithm<ReduceScatter>>(std::move(ring));
}

}  // namespace hymn
