// Collectives in one step: everybody shows its input in a slot, and folds or copies what it needs
// of what all have shown.
//
// A member writes two slots in turn. That is enough: who writes its slot for use k has finished use
// k-1, and so has seen everybody in k-1, which they entered after they had read use k-2.
//
// Two members may instead swap two slots: each writes the one that it has just read. Nobody else
// reads that one, and its lines are in this core's cache already.
#pragma once

#include <atomic>
#include <cstddef>

#include "collectives/shm/shm_algorithms.hpp"

namespace hymn {

/// The slots of all members for one algorithm, and how often this member has used them. Touched in
/// the member's turn only.
class ShownSlots {
 public:
  /// `swaps`: see above; only for two members.
  ShownSlots(const ShmGroup& group, int area, std::size_t capacity, bool swaps);

  /// Each member writes its own slots; for few bytes.
  static std::shared_ptr<ShownSlots> one_shot(const ShmGroup& group);
  /// Two members swap theirs.
  static std::shared_ptr<ShownSlots> swapped(const ShmGroup& group);

  /// Bytes of a member's area for slots that hold so much.
  static std::size_t area_bytes(std::size_t capacity, bool swaps);
  /// Whether the request fits, and can be reduced at all. What it takes of each input is all of it,
  /// or this member's part: as its layouts say.
  Verdict can_show(const Request& request) const;
  Operation& prepare(OperationStorage& storage, const Call& call);

 private:
  friend class ShowOperation;
  static constexpr std::size_t line = 64;
  static constexpr std::size_t few_bytes = 496;
  static constexpr std::size_t beside_flag = 48;  ///< of them, in its line
  /// Few data stand right behind the flag: the fewer lines there are, the sooner they have come.
  /// More of it begins behind the flag's line, as far from a line as in the user's buffer, for
  /// copies between addresses that are not alike are slower.
  struct Slot {
    std::atomic<std::uint64_t> flag;
    double factor;  ///< the member's own, of premul_sum
    std::byte few[few_bytes];
    std::byte* more() { return few + (line - offsetof(Slot, few)); }
    const std::byte* more() const { return few + (line - offsetof(Slot, few)); }
  };

  static std::size_t slot_bytes(std::size_t capacity);
  Slot& slot(int member, std::uint64_t use) const {
    const std::uint64_t turn = use % 2;
    const std::uint64_t index = static_cast<std::uint64_t>(member);
    // Swapped: the slot of member 0 is written by it in every other use, by its peer in the others.
    std::byte* const first = bases_[swaps_ ? (index + turn) % 2 : index];
    return *reinterpret_cast<Slot*>(swaps_ ? first : first + turn * slot_bytes_);
  }

  std::shared_ptr<ShmChannel> channel_;
  std::vector<std::byte*> bases_;  ///< by member: where its slots begin
  std::size_t capacity_;
  std::size_t slot_bytes_;
  bool swaps_;
  Reproducibility reproducibility_;
  std::uint64_t uses_ = 0;
};

/// The algorithms over such slots: all_reduce, or all_gather, reduce_scatter and all_to_all, in
/// which everybody shows all that it has and takes its own part from each. Their models tell them
/// apart.
class ShownAlgorithm final : public Algorithm {
 public:
  ShownAlgorithm(const AlgorithmModel& model, std::shared_ptr<ShownSlots> slots)
      : Algorithm(model), slots_(std::move(slots)) {}
  Verdict can_run(const Request& request) const override { return slots_->can_show(request); }
  /// All inputs are folded at once, in rank order.
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return slots_->prepare(storage, call);
  }

 private:
  std::shared_ptr<ShownSlots> slots_;
};

}  // namespace hymn
