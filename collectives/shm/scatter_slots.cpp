// scatter of few bytes: the root shows all blocks at once, and does not wait for the others to take
// theirs. Longer ones go through rings, each block to where it belongs.

#include "collectives/shm/slot_operation.hpp"

namespace hymn {
namespace {

class Scatter final : public SlotOperation {
 public:
  static constexpr OpType type = OpType::scatter;

  Scatter(SlotRing& ring, const Call& call)
      : SlotOperation(ring, call),
        to_(static_cast<std::byte*>(request().outputs.flat().data)),
        block_bytes_(request().outputs.flat().bytes()) {}

 private:
  std::size_t shown_bytes() const override {
    return block_bytes_ * static_cast<std::size_t>(size());
  }

  RoundPlan plan_rounds(std::size_t) override {
    const bool is_root = rank() == root();
    const std::uint64_t rounds = block_bytes_ != 0 ? 1 : 0;
    return {.rounds = rounds, .to_give = is_root ? rounds : 0, .takes = !is_root};
  }

  void give(std::uint64_t round) override {
    const auto* from = static_cast<const std::byte*>(request().inputs.flat().data);
    copy_bytes(room(round, from), from, shown_bytes(), false);
    show(round);
    copy_bytes(to_, from + own_block(), block_bytes_, false);
  }

  bool take() override {
    const std::byte* from = shown(root(), taken_);
    if (from == nullptr) return false;
    copy_bytes(to_, from + own_block(), block_bytes_, false);
    ++taken_;
    return true;
  }

  /// Where it begins among all blocks.
  std::size_t own_block() const { return block_bytes_ * static_cast<std::size_t>(rank()); }

  std::byte* to_;
  std::size_t block_bytes_;
};

class ScatterSlots final : public SlotAlgorithm<Scatter> {
 public:
  explicit ScatterSlots(std::shared_ptr<SlotRing> ring)
      : SlotAlgorithm(shm_models::scatter_slots, std::move(ring)) {}
  Verdict can_run(const Request& request) const override {
    if (request.inputs.layout() != Layout::equal)
      return Verdict::no("the blocks are given by counts or lists");
    const auto members = static_cast<std::size_t>(ring_->channel().size());
    Verdict fits = shm_limits::fits_at_once(request.outputs.flat().bytes() * members);
    return !fits.ok ? fits : SlotAlgorithm::can_run(request);
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_scatter_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<ScatterSlots>(std::move(ring));
}

}  // namespace hymn
