#include "collectives/shm/shown_slots.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/plan.hpp"
#include "collectives/shm/growing_slots.hpp"
#include "collectives/shm/shm_limits.hpp"
#include "collectives/shm_base/shm_operation.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {

class ShowOperation final : public ShmOperation {
 public:
  ShowOperation(ShownSlots& slots, const Call& call)
      : ShmOperation(*slots.channel_, call), slots_(slots), request_(*call.request) {
    // A factor that the type cannot hold is refused before anything is shown.
    if (is_scaled()) find_reducer();
  }

 private:
  using Slot = ShownSlots::Slot;

  bool is_scaled() const { return request_.op.kind() == ReduceKind::premul_sum; }
  void find_reducer() {
    reducer_ = reducer_for(request_.inputs.dtype(), request_.op, slots_.reproducibility_);
  }

  void begin() override {
    const ConstBufferView& input = request_.inputs.flat();
    use_ = ++slots_.uses_;
    Slot& mine = slots_.slot(channel().rank(), use_);
    const std::size_t bytes = input.count * input.element_bytes();
    const auto* const from = static_cast<const std::byte*>(input.data);
    unsigned offset = 0;
    if (bytes > ShownSlots::few_bytes) {
      offset = GrowingSlots::offset_of(from);
      std::memcpy(mine.more() + offset, from, bytes);
    } else {
      // The flag's line last, and all of it at once: the others look at it all the time.
      constexpr std::size_t beside = ShownSlots::beside_flag;
      if (bytes > beside) std::memcpy(mine.few + beside, from + beside, bytes - beside);
      if (bytes != 0) std::memcpy(mine.few, from, std::min(bytes, beside));
    }
    if (is_scaled()) mine.factor = request_.op.factor();
    channel().publish(mine.flag, SlotFlag::make(use_, label(), offset));
    // While it is on its way.
    if (reduces(request_.type) && !is_scaled()) find_reducer();
  }

  Awaited awaited() const override {
    return channel().awaited(seen_, [this](int member) {
      return SlotFlag::is_of(slots_.slot(member, use_).flag.load(std::memory_order_relaxed), use_);
    });
  }

  bool advance() override {
    for (; seen_ < channel().size(); ++seen_) {
      if (seen_ == channel().rank()) continue;
      const std::atomic<std::uint64_t>& shown = slots_.slot(seen_, use_).flag;
      std::uint64_t flag = shown.load(std::memory_order_acquire);
      for (int look = 1; !SlotFlag::is_of(flag, use_); ++look) {
        if (look >= channel().spin_count()) return false;
        flag = shown.load(std::memory_order_acquire);
      }
      if (!SlotFlag::has_label(flag, label())) [[unlikely]]
        throw_for(seen_);
    }
    if (request_.inputs.flat().count != 0) {
      if (reduces(request_.type))
        fold();
      else
        copy();
    }
    return true;
  }

  /// Where what this member takes begins in the input of each, and how many elements it has.
  Slice part() const {
    if (request_.inputs.layout() == Layout::whole) return {0, request_.inputs.flat().count};
    const auto rank = static_cast<std::size_t>(channel().rank());
    const std::size_t each =
        request_.inputs.flat().count / static_cast<std::size_t>(channel().size());
    return {rank * each, each};
  }
  /// The input of a member. That of this one is the user's buffer: its slot may be the peer's by
  /// now.
  const std::byte* input_of(int member) const {
    const ConstBufferView& own = request_.inputs.flat();
    if (member == channel().rank()) return static_cast<const std::byte*>(own.data);
    const Slot& slot = slots_.slot(member, use_);
    if (own.count * own.element_bytes() <= sizeof(Slot::few)) return slot.few;
    return slot.more() + SlotFlag::offset(slot.flag.load(std::memory_order_relaxed));
  }

  void copy() {
    const Slice mine = part();
    const std::size_t element = request_.inputs.element_bytes();
    auto* to = static_cast<std::byte*>(request_.outputs.flat().data);
    for (int member = 0; member < channel().size(); ++member, to += mine.count * element)
      if (const std::byte* from = input_of(member) + mine.offset * element; from != to)
        std::memcpy(to, from, mine.count * element);
  }

  void fold() {
    const Slice mine = part();
    const bool scaled = is_scaled();
    FoldInputs inputs;
    for (int member = 0; member < channel().size(); ++member) {
      const auto index = static_cast<std::size_t>(member);
      inputs.data[index] = input_of(member) + mine.offset * reducer_.element_bytes;
      if (scaled)
        inputs.factors[index] =
            member == channel().rank() ? request_.op.factor() : slots_.slot(member, use_).factor;
    }
    reduce_all(reducer_, inputs.data.data(), channel().size(), request_.outputs.flat().data,
               mine.count, scaled ? inputs.factors.data() : nullptr);
  }

  ShownSlots& slots_;
  const Request& request_;
  Reducer reducer_;
  std::uint64_t use_ = 0;
  int seen_ = 0;
};

std::shared_ptr<ShownSlots> ShownSlots::one_shot(const ShmGroup& group) {
  return std::make_shared<ShownSlots>(group, group.areas.one_shot, shm_limits::one_shot_slot,
                                      false);
}

std::shared_ptr<ShownSlots> ShownSlots::swapped(const ShmGroup& group) {
  return std::make_shared<ShownSlots>(group, group.areas.swapped, shm_limits::swapped_slot, true);
}

std::size_t one_shot_bytes(int members) {
  return members > 1 ? ShownSlots::area_bytes(shm_limits::one_shot_slot, false) : 0;
}

std::size_t swapped_bytes(int members) {
  return members == 2 ? ShownSlots::area_bytes(shm_limits::swapped_slot, true) : 0;
}

ShownSlots::ShownSlots(const ShmGroup& group, int area, std::size_t capacity, bool swaps)
    : channel_(group.channel),
      capacity_(capacity),
      slot_bytes_(slot_bytes(capacity)),
      swaps_(swaps),
      reproducibility_(group.shape.reproducibility) {
  for (int member = 0; member < channel_->size(); ++member)
    bases_.push_back(channel_->at<std::byte>(member, area));
}

// Neighbouring lines travel together: the next slot begins beyond them.
std::size_t ShownSlots::slot_bytes(std::size_t capacity) {
  constexpr std::size_t unit = RegionPlan::line_bytes;
  static_assert(sizeof(Slot) == 16 + few_bytes);
  return (std::max(sizeof(Slot), 2 * line + capacity) + unit - 1) / unit * unit;
}

std::size_t ShownSlots::area_bytes(std::size_t capacity, bool swaps) {
  return slot_bytes(capacity) * (swaps ? 1 : 2);
}

Verdict ShownSlots::can_show(const Request& request) const {
  const int members = channel_->size();
  Verdict fits =
      first_no({can_look_at_all(members), swaps_ ? shm_limits::can_swap(members) : Verdict::yes()});
  if (!fits.ok) return fits;
  const auto is_even = [](Layout layout) {
    return layout == Layout::whole || layout == Layout::equal;
  };
  if (!is_even(request.inputs.layout()) || !is_even(request.outputs.layout()))
    return Verdict::no("the blocks are given by counts or lists");
  fits = shm_limits::fits_slot(request.inputs.flat().bytes(), capacity_);
  if (!fits.ok) return fits;
  return reduces(request.type) ? can_reduce_in_memory(request) : can_move_bytes(request);
}

Operation& ShownSlots::prepare(OperationStorage& storage, const Call& call) {
  return storage.emplace<ShowOperation>(*this, call);
}

}  // namespace hymn
