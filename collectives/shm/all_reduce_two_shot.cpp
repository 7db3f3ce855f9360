// all_reduce of many bytes: the message goes in rounds through a ring of slots. In each round a
// member shows what others fold, folds its own slice of all members' data, and fetches the slices
// that the others have folded. Three rounds are under way at once, so that members rarely wait.
//
// With two members the result goes into the slot where the peer has shown its data: those lines are
// in this core's cache already. With more, everybody fetches it from the folder's own slot.

#include <algorithm>
#include <cstring>

#include "collectives/plan.hpp"
#include "collectives/shm/all_reduce_in_rounds.hpp"
#include "collectives/shm/shm_models.hpp"
#include "collectives/shm/step_budget.hpp"

namespace hymn {
namespace {

constexpr unsigned ring_slots = 3;
/// What every member has from the beginning, should there be no memory for more.
constexpr std::size_t small_ring_slot = 8192;
constexpr std::size_t largest_ring_slot = std::size_t{512} << 10;
/// All members' slots together stay below this.
constexpr std::size_t most_together = std::size_t{48} << 20;
/// Results are written past the caches when the buffers of all members are larger than what these
/// hold; below that it costs a factor. Measured with 2 to 8 ranks on 2 cores that share 32 MB.
constexpr std::size_t results_stream_from = std::size_t{32} << 20;

/// A member's flags. Each of them is written by that member only.
struct TwoShotFlags {
  struct alignas(128) Staged {
    std::atomic<std::uint64_t> flag;  ///< a SlotFlag of the round that is in this slot
    double factor;                    ///< of premul_sum
  };
  Staged staged[ring_slots];
  alignas(128) std::atomic<std::uint64_t> folded;  ///< the last round whose slice it has folded
  alignas(128) std::atomic<std::uint64_t> copied;  ///< the last round that it has fetched
  alignas(128) std::byte small_slots[ring_slots * GrowingSlots::stride(small_ring_slot)];
};

class TwoShotOperation final : public RoundsOperation<TwoShotFlags> {
 public:
  using RoundsOperation::RoundsOperation;

 private:
  bool advance() override {
    if (!planned_ && !plan()) return false;
    StepBudget budget;
    for (bool moved = true; moved;) {
      // A round with all its three parts, at most.
      if (budget.is_done()) return StepBudget::go_on_later(channel());
      moved = false;
      if (staged_ < rounds_ && may_stage()) moved = true, stage();
      if (folded_ < staged_ && all_have_staged()) moved = true, fold();
      if (copied_ < folded_ && all_have_folded()) moved = true, copy_out();
      budget.add(shared_.slots.capacity());
    }
    return copied_ == rounds_;
  }

  // --- Sizes ---

  bool plan() {
    if (!shared_.slots.find(channel())) return false;
    planned_ = true;
    const std::size_t count = request_.inputs.flat().count;
    per_round_ = shared_.slots.capacity() / reducer_.element_bytes;
    rounds_ = (count + per_round_ - 1) / per_round_;
    first_ = shared_.rounds + 1;
    shared_.rounds += rounds_;
    streams_ = bytes_of_all_buffers() > results_stream_from;
    return true;
  }

  /// Of all members, if theirs are like this one's.
  std::size_t bytes_of_all_buffers() const {
    const std::size_t buffers = static_cast<std::size_t>(size()) * (in_place() ? 1 : 2);
    return buffers * request_.inputs.flat().bytes();
  }
  bool in_place() const { return request_.inputs.flat().data == request_.outputs.flat().data; }
  bool is_pair() const { return size() == 2; }

  // --- Where things are ---

  /// Elements of the message in a round.
  Slice round_part(std::size_t round) const {
    const std::size_t offset = round * per_round_;
    return {offset, std::min(per_round_, request_.inputs.flat().count - offset)};
  }
  /// Of those the slice of one member, counted from the beginning of the round. Slices begin on
  /// lines, so that no two members write to one.
  Slice slice(std::size_t round, int member) const {
    const std::size_t count = round_part(round).count;
    const std::size_t in_line = GrowingSlots::line / reducer_.element_bytes;
    const auto parts = static_cast<std::size_t>(size());
    const std::size_t each = (count + parts * in_line - 1) / (parts * in_line) * in_line;
    const std::size_t offset = std::min(count, static_cast<std::size_t>(member) * each);
    return {offset, std::min(each, count - offset)};
  }
  std::size_t place(std::size_t round) const { return (first_ + round) % ring_slots; }
  std::uint64_t number(std::size_t round) const { return first_ + round; }
  std::byte* slot(int member, std::size_t round) const {
    const std::uint64_t flag =
        flags(member).staged[place(round)].flag.load(std::memory_order_relaxed);
    return slot_begin(member, round) + SlotFlag::offset(flag);
  }
  std::byte* slot_begin(int member, std::size_t round) const {
    return shared_.slots.slot(channel(), member, place(round), flags(member).small_slots);
  }
  std::byte* in_slot(int member, std::size_t round, std::size_t element) const {
    return slot(member, round) + element * reducer_.element_bytes;
  }
  const std::byte* input(std::size_t round, std::size_t element) const {
    return RoundsOperation::input(round_part(round).offset + element);
  }
  std::byte* output(std::size_t round, std::size_t element) const {
    return RoundsOperation::output(round_part(round).offset + element);
  }

  // --- What is done in a round ---

  /// The slot may be written again when nobody reads it any more. Between two members this is
  /// known: this member has fetched what its peer left there.
  bool may_stage() const {
    if (staged_ >= copied_ + ring_slots) return false;
    if (is_pair() || number(staged_) <= ring_slots) return true;
    for (int member = 0; member < size(); ++member)
      if (member != me() &&
          flags(member).copied.load(std::memory_order_acquire) + ring_slots < number(staged_))
        return false;
    return true;
  }

  void stage() {
    const std::size_t round = staged_++;
    TwoShotFlags::Staged& mine = flags(me()).staged[place(round)];
    const unsigned offset = GrowingSlots::offset_of(input(round, 0));
    // Nobody looks at the flag's offset before its round has come.
    const std::uint64_t flag = SlotFlag::make(number(round), label(), offset);
    std::byte* const to = slot_begin(me(), round) + offset;
    const Slice own = slice(round, me());
    const std::size_t total = round_part(round).count;
    const std::size_t size = reducer_.element_bytes;
    if (own.offset != 0) std::memcpy(to, input(round, 0), own.offset * size);
    const std::size_t behind = own.offset + own.count;
    if (behind < total)
      std::memcpy(to + behind * size, input(round, behind), (total - behind) * size);
    mine.factor = request_.op.factor();
    channel().publish(mine.flag, flag);
  }

  bool all_have_staged() {
    for (; seen_staged_ < size(); ++seen_staged_) {
      if (seen_staged_ == me()) continue;
      const std::uint64_t flag =
          flags(seen_staged_).staged[place(folded_)].flag.load(std::memory_order_acquire);
      if (!SlotFlag::is_of(flag, number(folded_))) return false;
      if (!SlotFlag::has_label(flag, label())) [[unlikely]]
        throw_for(seen_staged_);
    }
    seen_staged_ = 0;
    return true;
  }

  void fold() {
    const std::size_t round = folded_++;
    const Slice own = slice(round, me());
    if (own.count != 0) {
      const int holder = is_pair() ? 1 - me() : me();
      fold_all(
          [&](int member) {
            return member == me() ? input(round, own.offset) : in_slot(member, round, own.offset);
          },
          [&](int member) { return flags(member).staged[place(round)].factor; },
          output(round, own.offset), own.count,
          {.copy = in_slot(holder, round, own.offset), .stream = streams_});
    }
    channel().publish(flags(me()).folded, number(round));
  }

  bool all_have_folded() {
    for (; seen_folded_ < size(); ++seen_folded_)
      if (seen_folded_ != me() &&
          flags(seen_folded_).folded.load(std::memory_order_acquire) < number(copied_))
        return false;
    seen_folded_ = 0;
    return true;
  }

  void copy_out() {
    const std::size_t round = copied_++;
    for (int member = 0; member < size(); ++member) {
      if (member == me()) continue;
      const Slice theirs = slice(round, member);
      const int holder = is_pair() ? me() : member;
      copy_bytes(output(round, theirs.offset), in_slot(holder, round, theirs.offset),
                 theirs.count * reducer_.element_bytes, streams_);
    }
    if (!is_pair()) channel().publish(flags(me()).copied, number(round));
  }

  bool planned_ = false;
  bool streams_ = false;
  std::size_t per_round_ = 0;
  std::size_t rounds_ = 0;
  std::uint64_t first_ = 0;  // number of this operation's first round
  // Rounds that this member is through with.
  std::size_t staged_ = 0;
  std::size_t folded_ = 0;
  std::size_t copied_ = 0;
  int seen_staged_ = 0;
  int seen_folded_ = 0;
};

}  // namespace

std::size_t two_shot_flag_bytes(int) { return sizeof(TwoShotFlags); }

std::size_t two_shot_slot_bytes(int members) {
  const std::size_t share = most_together / ring_slots / static_cast<std::size_t>(members);
  return ring_slots *
         GrowingSlots::stride(std::clamp(share / GrowingSlots::line * GrowingSlots::line,
                                         2 * small_ring_slot, largest_ring_slot));
}

std::unique_ptr<Algorithm> make_all_reduce_two_shot(const ShmGroup& group) {
  return std::make_unique<AllReduceInRounds<TwoShotOperation>>(
      shm_models::two_shot, group, group.areas.two_shot_flags,
      GrowingSlots(group.areas.two_shot_slots, ring_slots, small_ring_slot));
}

}  // namespace hymn
