// broadcast: the root shows its buffer piece by piece, and does not wait for the others to read it
// while it has slots left.

#include <algorithm>

#include "collectives/shm/slot_operation.hpp"

namespace hymn {
namespace {

class Broadcast final : public SlotOperation {
 public:
  static constexpr OpType type = OpType::broadcast;

  Broadcast(SlotRing& ring, const Call& call)
      : SlotOperation(ring, call),
        data_(static_cast<std::byte*>(request().outputs.flat().data)),
        bytes_(request().outputs.flat().bytes()) {}

 private:
  std::size_t shown_bytes() const override { return bytes_; }

  RoundPlan plan_rounds(std::size_t room) override {
    piece_ = room;
    const std::uint64_t rounds = pieces_of(bytes_, room);
    const bool is_root = rank() == root();
    return {.rounds = rounds, .to_give = is_root ? rounds : 0, .takes = !is_root};
  }

  void give(std::uint64_t round) override {
    const std::byte* from = data_ + begin_of(round);
    copy_bytes(room(round, from), from, bytes_of(round), false);
    show(round);
  }

  bool take() override {
    const std::byte* from = shown(root(), taken_);
    if (from == nullptr) return false;
    copy_bytes(data_ + begin_of(taken_), from, bytes_of(taken_), should_stream(bytes_));
    ++taken_;
    return true;
  }

  std::size_t begin_of(std::uint64_t round) const { return index(round) * piece_; }
  std::size_t bytes_of(std::uint64_t round) const {
    return std::min(piece_, bytes_ - begin_of(round));
  }

  std::byte* data_;
  std::size_t bytes_;
  std::size_t piece_ = 0;
};

}  // namespace

std::unique_ptr<Algorithm> make_broadcast_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<SlotAlgorithm<Broadcast>>(std::move(ring));
}

}  // namespace hymn
