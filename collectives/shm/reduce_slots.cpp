// reduce: the others show their inputs piece by piece, and the root folds each piece of all at
// once. Nobody waits for the root while it has room left. Where many members have cores of their
// own, and much is to be folded, all of them fold.

#include <algorithm>

#include "collectives/shm/slot_reduction.hpp"

namespace hymn {
namespace {

class Reduce : public SlotReduction {
 public:
  static constexpr OpType type = OpType::reduce;

  Reduce(SlotRing& ring, const Call& call)
      : SlotReduction(ring, call),
        input_(static_cast<const std::byte*>(request().inputs.flat().data)),
        output_(static_cast<std::byte*>(request().outputs.flat().data)),
        bytes_(request().inputs.flat().bytes()) {}

 protected:
  bool is_root() const { return rank() == root(); }
  const std::byte* input_of(std::uint64_t round) const { return input_ + begin_of(round); }
  std::byte* output_of(std::uint64_t round) const { return output_ + begin_of(round); }
  std::size_t bytes_of(std::uint64_t round) const {
    return std::min(piece_, bytes_ - begin_of(round));
  }
  bool streams() const { return should_stream(bytes_); }

  RoundPlan plan_rounds(std::size_t room) override {
    piece_ = room;
    const std::uint64_t rounds = pieces_of(bytes_, room);
    return {.rounds = rounds, .to_give = is_root() ? 0 : rounds, .takes = is_root()};
  }

 private:
  std::size_t shown_bytes() const override { return bytes_; }

  void give(std::uint64_t round) override {
    const std::byte* from = input_of(round);
    copy_bytes(room(round, from), from, bytes_of(round), false);
    show(round);
  }

  bool take() override {
    if (!fold(taken_, input_of(taken_), 0, output_of(taken_), bytes_of(taken_), streams()))
      return false;
    ++taken_;
    return true;
  }

  std::size_t begin_of(std::uint64_t round) const { return index(round) * piece_; }

  const std::byte* input_;
  std::byte* output_;
  std::size_t bytes_;
  std::size_t piece_ = 0;
};

/// Each member folds a slice of every piece, over its own data of that slice, which nobody else
/// reads; the root collects the slices. That a member is through with a round tells that its slice
/// is there.
class ReduceTogether final : public Reduce {
 public:
  static constexpr int fewest_members = 4;
  static constexpr std::size_t fewest_bytes = std::size_t{256} << 10;

  using Reduce::Reduce;

 private:
  struct Slice {
    std::size_t begin;
    std::size_t bytes;
  };

  RoundPlan plan_rounds(std::size_t room) override {
    const std::uint64_t rounds = Reduce::plan_rounds(room).rounds;
    return {.rounds = rounds, .to_give = rounds};
  }

  bool take() override {
    if (folded_ == 0) folded_ = first_round();
    bool moved = false;
    // The result takes the place of data that must have been shown before.
    if (folded_ < next_to_give() && fold_own(folded_)) {
      ++folded_;
      moved = true;
    }
    while (taken_ != folded_ && (!is_root() || collect(taken_))) {
      ++taken_;
      moved = true;
    }
    return moved;
  }

  bool fold_own(std::uint64_t round) {
    const Slice slice = slice_of(rank(), round);
    std::byte* const to = is_root() ? output_of(round) : own_room(round);
    return fold(round, input_of(round) + slice.begin, slice.begin, to + slice.begin, slice.bytes,
                is_root() && streams());
  }

  bool collect(std::uint64_t round) {
    for (; collected_ < size(); ++collected_) {
      if (is_root(collected_)) continue;
      if (!ring().has_finished(collected_, round)) return false;
      const Slice slice = slice_of(collected_, round);
      copy_bytes(output_of(round) + slice.begin, shown(collected_, round) + slice.begin,
                 slice.bytes, streams());
    }
    collected_ = 0;
    return true;
  }

  using Reduce::is_root;
  bool is_root(int member) const { return member == root(); }

  /// Whole lines, but for the last.
  Slice slice_of(int member, std::uint64_t round) const {
    const std::size_t all = bytes_of(round);
    const std::size_t each = (all / static_cast<std::size_t>(size()) + 64) / 64 * 64;
    const std::size_t begin = std::min(all, each * static_cast<std::size_t>(member));
    return {begin, std::min(each, all - begin)};
  }

  std::uint64_t folded_ = 0;  ///< the next round to fold
  int collected_ = 0;         ///< so many of the first members' slices are in the output
};

class ReduceSlots final : public SlotAlgorithm<Reduce> {
 public:
  using SlotAlgorithm::SlotAlgorithm;
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    const ShmChannel& channel = ring_->channel();
    if (!channel.oversubscribed() && channel.size() >= ReduceTogether::fewest_members &&
        call.request->inputs.flat().bytes() >= ReduceTogether::fewest_bytes)
      return storage.emplace<ReduceTogether>(*ring_, call);
    return SlotAlgorithm::prepare(storage, call);
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_reduce_slots(std::shared_ptr<SlotRing> ring) {
  return std::make_unique<ReduceSlots>(std::move(ring));
}

}  // namespace hymn
