// all_gather: each member shows its input piece by piece, and takes what the others show in
// whatever order it comes.

#include <algorithm>

#include "collectives/shm/slot_operation.hpp"

namespace hymn {
namespace {

class AllGather final : public SlotOperation {
 public:
  static constexpr OpType type = OpType::all_gather;

  AllGather(SlotRing& ring, const Call& call)
      : SlotOperation(ring, call),
        own_(request().outputs.block(rank(), size())),
        input_(static_cast<const std::byte*>(request().inputs.flat().data)) {
    if (request().outputs.layout() == Layout::equal) longest_ = own_.bytes();
    each_block([this](int, std::byte*, std::size_t bytes) {
      longest_ = std::max(longest_, bytes);
      total_ += bytes;
    });
    mix(longest_);  // how many rounds there are
  }

 private:
  std::size_t shown_bytes() const override { return longest_; }

  RoundPlan plan_rounds(std::size_t room) override {
    piece_ = room;
    return {.rounds = pieces_of(longest_, room), .to_give = pieces_of(own_.bytes(), room)};
  }

  void give(std::uint64_t round) override {
    const std::size_t offset = index(round) * piece_;
    const std::size_t bytes = std::min(piece_, own_.bytes() - offset);
    copy_bytes(room(round, input_ + offset), input_ + offset, bytes, false);
    show(round);
    copy_bytes(static_cast<std::byte*>(own_.data) + offset, input_ + offset, bytes, streams());
  }

  // Giving may have to wait for slots: others' first pieces may be here before anything is given.
  bool take() override {
    if (!began_) begin_taking();
    bool moved = false;
    std::uint64_t least = end_round();
    each_block([&](int member, std::byte* block, std::size_t bytes) {
      std::uint64_t& next = ring().taken()[static_cast<std::size_t>(member)];
      if (next == end_round()) return;
      moved |= take_from(member, block, bytes, next);
      least = std::min(least, next);
    });
    moved |= taken_ != least;
    taken_ = least;
    return moved;
  }

  void begin_taking() {
    began_ = true;
    std::fill(ring().taken().begin(), ring().taken().end(), first_round());
    ring().taken()[static_cast<std::size_t>(rank())] = end_round();
  }

  /// The results of both halves of the members: streaming pays from 16 MB on, as measured.
  bool streams() const { return should_stream(total_ / 2); }

  template <class Visit>
  void each_block(Visit visit) const {
    const OutputBlocks& outputs = request().outputs;
    if (outputs.layout() == Layout::equal) {
      auto* block = static_cast<std::byte*>(outputs.flat().data);
      for (int member = 0; member < size(); ++member, block += longest_)
        visit(member, block, longest_);
    } else {
      outputs.for_each(size(), [&visit](int member, const BufferView& block) {
        visit(member, static_cast<std::byte*>(block.data), block.bytes());
      });
    }
  }

  bool take_from(int member, std::byte* block, std::size_t bytes, std::uint64_t& next) {
    const std::uint64_t before = next;
    while (index(next) * piece_ < bytes) {
      const std::byte* from = budget().is_done() ? nullptr : shown(member, next);
      if (from == nullptr) return next != before;
      const std::size_t offset = index(next) * piece_;
      const std::size_t length = std::min(piece_, bytes - offset);
      copy_bytes(block + offset, from, length, streams());
      budget().add(length);
      ++next;
    }
    next = end_round();  // it shows nothing in the rounds that are left
    return true;
  }

  BufferView own_;
  const std::byte* input_;
  std::size_t longest_ = 0;
  std::size_t total_ = 0;
  std::size_t piece_ = 0;
  bool began_ = false;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_gather_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<SlotAlgorithm<AllGather>>(std::move(ring));
}

}  // namespace hymn
