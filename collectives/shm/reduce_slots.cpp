// reduce: the others show their inputs piece by piece, and the root folds each piece of all at
// once. Nobody waits for the root while it has slots left.

#include <algorithm>

#include "collectives/shm/slot_reduction.hpp"

namespace hymn {
namespace {

class Reduce final : public SlotReduction {
 public:
  static constexpr std::string_view name = "reduce_slots";
  static constexpr OpType type = OpType::reduce;

  Reduce(SlotRing& ring, const Call& call)
      : SlotReduction(ring, call),
        input_(static_cast<const std::byte*>(request().inputs.flat().data)),
        bytes_(request().inputs.flat().bytes()) {
    mix(bytes_);
  }

 private:
  std::size_t shown_bytes() const override { return bytes_; }

  Cut cut(std::size_t room) override {
    piece_ = room;
    const std::uint64_t rounds = pieces_of(bytes_, room);
    const bool is_root = rank() == root();
    return {.rounds = rounds, .to_give = is_root ? 0 : rounds, .takes = is_root};
  }

  void give(std::uint64_t round) override {
    const std::byte* from = input_ + begin_of(round);
    copy_bytes(room(round, from), from, bytes_of(round), false);
    show(round);
  }

  bool take() override {
    const std::size_t begin = begin_of(taken_);
    auto* const out = static_cast<std::byte*>(request().outputs.flat().data);
    if (!fold(taken_, input_ + begin, 0, out + begin, bytes_of(taken_), should_stream(bytes_)))
      return false;
    ++taken_;
    return true;
  }

  std::size_t begin_of(std::uint64_t round) const { return index(round) * piece_; }
  std::size_t bytes_of(std::uint64_t round) const {
    return std::min(piece_, bytes_ - begin_of(round));
  }

  const std::byte* input_;
  std::size_t bytes_;
  std::size_t piece_ = 0;
};

}  // namespace

std::unique_ptr<Algorithm> make_reduce_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<SlotAlgorithm<Reduce>>(std::move(ring));
}

}  // namespace hymn
