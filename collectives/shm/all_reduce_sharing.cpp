// all_reduce among more members than cores: all show their whole input, and then any member that
// happens to run folds slices until none is left. Nobody waits for a slice of a member that has no
// core.
//
// The results take the place of member 0's input, slice by slice. Two slots are used in turn:
// member 0 may write a slot for round t+2 when all have arrived in round t+1, for then all have
// fetched the results of round t.

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/shm/all_reduce_in_rounds.hpp"
#include "collectives/shm/shm_models.hpp"

namespace hymn {
namespace {

constexpr unsigned slot_count = 2;
constexpr std::size_t small_slot = 4096;
constexpr std::size_t largest_slot = std::size_t{64} << 10;
constexpr std::size_t slice_bytes = 4096;

/// All counters only grow, and all but `flag` are member 0's, for all to use.
struct SharingFlags {
  alignas(128) std::atomic<std::uint64_t> arrived;  ///< members, in all rounds
  alignas(128) std::atomic<std::uint64_t> claimed;  ///< slices, in all rounds
  alignas(128) std::atomic<std::uint64_t> folded;   ///< likewise
  struct alignas(128) Shown {
    std::atomic<std::uint64_t> flag;  ///< a SlotFlag; ordered by `arrived`
    double factor;
  };
  Shown shown[slot_count];
  alignas(128) std::byte small_slots[slot_count * GrowingSlots::stride(small_slot)];
};

struct SharingState : RoundsState {
  explicit SharingState(RoundsState state) : RoundsState(std::move(state)) {}

  std::uint64_t slices = 0;  ///< of all rounds so far
};

class SharingOperation final : public RoundsOperation<SharingFlags, SharingState> {
 public:
  using RoundsOperation::RoundsOperation;

 private:
  bool advance() override {
    if (!planned_ && !plan()) return false;
    while (done_ < count_) {
      if (!shown_) show();
      if (counters().arrived.load(std::memory_order_acquire) < all_arrived()) return false;
      if (!checked_) check();
      fold_what_is_left();
      if (counters().folded.load(std::memory_order_acquire) < shared_.slices + slices_now())
        return false;
      fetch();
    }
    return true;
  }

  bool plan() {
    if (!shared_.slots.find(channel())) return false;
    planned_ = true;
    count_ = request_.inputs.flat().count;
    return true;
  }

  SharingFlags& counters() const { return flags(0); }
  std::uint64_t all_arrived() const {
    return (shared_.rounds + 1) * static_cast<std::uint64_t>(size());
  }
  std::size_t place() const { return shared_.rounds % slot_count; }
  /// Elements of this round.
  std::size_t count_now() const {
    return std::min(count_ - done_, shared_.slots.capacity() / reducer_.element_bytes);
  }
  std::size_t slice_elements() const { return slice_bytes / reducer_.element_bytes; }
  std::uint64_t slices_now() const {
    return (count_now() + slice_elements() - 1) / slice_elements();
  }
  std::byte* slot(int member) const {
    return shared_.slots.slot(channel(), member, place(), flags(member).small_slots);
  }
  std::byte* data(int member) const {
    const std::uint64_t flag = flags(member).shown[place()].flag.load(std::memory_order_relaxed);
    return slot(member) + SlotFlag::offset(flag);
  }

  void show() {
    const unsigned offset = GrowingSlots::offset_of(input(done_));
    std::memcpy(slot(me()) + offset, input(done_), count_now() * reducer_.element_bytes);
    SharingFlags::Shown& mine = flags(me()).shown[place()];
    mine.factor = request_.op.factor();
    mine.flag.store(SlotFlag::make(shared_.rounds + 1, label(), offset), std::memory_order_relaxed);
    counters().arrived.fetch_add(1, std::memory_order_seq_cst);
    channel().wake_sleepers();
    shown_ = true;
    checked_ = false;
  }

  void check() {
    checked_ = true;
    for (int member = 0; member < size(); ++member)
      if (!SlotFlag::has_label(flags(member).shown[place()].flag.load(std::memory_order_relaxed),
                               label())) [[unlikely]]
        throw_for(member);
  }

  void fold_what_is_left() {
    const std::uint64_t end = shared_.slices + slices_now();
    std::uint64_t next = counters().claimed.load(std::memory_order_relaxed);
    bool folded = false;
    while (next < end) {
      if (!counters().claimed.compare_exchange_weak(next, next + 1, std::memory_order_relaxed))
        continue;
      fold(static_cast<std::size_t>(next - shared_.slices));
      counters().folded.fetch_add(1, std::memory_order_seq_cst);
      folded = true;
      next = counters().claimed.load(std::memory_order_relaxed);
    }
    if (folded) channel().wake_sleepers();
  }

  void fold(std::size_t slice) {
    const std::size_t first = slice * slice_elements();
    const std::size_t count = std::min(slice_elements(), count_now() - first);
    const auto slice_of = [&](int member) { return data(member) + first * reducer_.element_bytes; };
    fold_all(
        slice_of, [this](int member) { return flags(member).shown[place()].factor; }, slice_of(0),
        count);
  }

  void fetch() {
    std::memcpy(output(done_), data(0), count_now() * reducer_.element_bytes);
    shared_.slices += slices_now();
    done_ += count_now();
    ++shared_.rounds;
    shown_ = false;
  }

  bool planned_ = false;
  std::size_t count_ = 0;
  std::size_t done_ = 0;  // elements of earlier rounds
  bool shown_ = false;
  bool checked_ = false;
};

}  // namespace

std::size_t sharing_flag_bytes(int) { return sizeof(SharingFlags); }
std::size_t sharing_slot_bytes(int) { return slot_count * GrowingSlots::stride(largest_slot); }

std::unique_ptr<Algorithm> make_all_reduce_sharing(const ShmGroup& group) {
  return std::make_unique<AllReduceInRounds<SharingOperation>>(
      shm_models::sharing, group, group.areas.sharing_flags,
      GrowingSlots(group.areas.sharing_slots, slot_count, small_slot));
}

}  // namespace hymn
