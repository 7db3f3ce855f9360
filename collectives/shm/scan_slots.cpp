// scan, exscan: each member but the last shows its input piece by piece, and folds each piece of
// all members before it at once. Nobody waits for those behind it while it has room left.

#include <algorithm>

#include "collectives/shm/slot_reduction.hpp"

namespace hymn {
namespace {

template <OpType prefix>
class Scan final : public SlotReduction {
 public:
  static constexpr OpType type = prefix;

  Scan(SlotRing& ring, const Call& call)
      : SlotReduction(ring, call),
        input_(static_cast<const std::byte*>(request().inputs.flat().data)),
        output_(static_cast<std::byte*>(request().outputs.flat().data)),
        bytes_(request().inputs.flat().bytes()) {}

 private:
  std::size_t shown_bytes() const override { return bytes_; }

  RoundPlan plan_rounds(std::size_t room) override {
    piece_ = room;
    const std::uint64_t rounds = pieces_of(bytes_, room);
    return {.rounds = rounds, .to_give = is_last() ? 0 : rounds, .takes = folded() != 0};
  }

  void give(std::uint64_t round) override {
    const std::byte* from = input_ + begin_of(round);
    copy_bytes(room(round, from), from, bytes_of(round), false);
    show(round);
  }

  bool take() override {
    // In place the result takes the place of data that must have been shown before.
    if (!is_last() && taken_ >= next_to_give()) return false;
    const std::size_t begin = begin_of(taken_);
    if (!fold_first(folded(), taken_, input_ + begin, 0, output_ + begin, bytes_of(taken_),
                    should_stream(bytes_)))
      return false;
    ++taken_;
    return true;
  }

  bool is_last() const { return rank() == size() - 1; }
  /// The first so many members' inputs come to this one's result.
  int folded() const { return rank() + (prefix == OpType::scan ? 1 : 0); }
  std::size_t begin_of(std::uint64_t round) const { return index(round) * piece_; }
  std::size_t bytes_of(std::uint64_t round) const {
    return std::min(piece_, bytes_ - begin_of(round));
  }

  const std::byte* input_;
  std::byte* output_;
  std::size_t bytes_;
  std::size_t piece_ = 0;
};

template <OpType prefix>
class ScanSlots final : public SlotAlgorithm<Scan<prefix>> {
 public:
  explicit ScanSlots(std::shared_ptr<SlotRing> ring)
      : SlotAlgorithm<Scan<prefix>>(shm_models::scan_slots, std::move(ring)) {}
};

}  // namespace

std::unique_ptr<Algorithm> make_scan_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<ScanSlots<OpType::scan>>(std::move(ring));
}

std::unique_ptr<Algorithm> make_exscan_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<ScanSlots<OpType::exscan>>(std::move(ring));
}

}  // namespace hymn
