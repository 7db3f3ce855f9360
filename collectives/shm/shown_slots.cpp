#include "collectives/shm/shown_slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "collectives/shm/growing_slots.hpp"
#include "collectives/shm/shm_operation.hpp"
#include "collectives/shm/shm_reduction.hpp"

namespace hymn {

class ShowOperation final : public ShmOperation {
 public:
  ShowOperation(ShownSlots& slots, const Call& call)
      : ShmOperation(*slots.channel_), slots_(slots), request_(*call.request) {
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
    const std::size_t bytes = input.count * size_of(input.dtype);
    signature_ = call_signature(request_);
    unsigned offset = 0;
    std::byte* to = mine.few;
    if (bytes > sizeof mine.few) {
      offset = GrowingSlots::offset_of(input.data);
      to = mine.more() + offset;
    }
    if (bytes != 0) std::memcpy(to, input.data, bytes);
    if (is_scaled()) mine.factor = request_.op.factor();
    channel().publish(mine.flag, SlotFlag::make(use_, signature_, offset));
    // While it is on its way.
    if (!is_scaled()) find_reducer();
  }

  bool advance() override {
    for (; seen_ < channel().size(); ++seen_) {
      if (seen_ == channel().rank()) continue;
      const std::atomic<std::uint64_t>& shown = slots_.slot(seen_, use_).flag;
      std::uint64_t flag = shown.load(std::memory_order_acquire);
      for (int look = 1; SlotFlag::use(flag) != use_; ++look) {
        if (look >= channel().looks()) return false;
        flag = shown.load(std::memory_order_acquire);
      }
      if (SlotFlag::signature(flag) != signature_) [[unlikely]]
        throw_other_call(seen_, request_);
    }
    fold();
    return true;
  }

  void fold() {
    const std::size_t count = request_.inputs.flat().count;
    if (count == 0) return;
    const bool few = count * reducer_.element_bytes <= sizeof(Slot::few);
    const bool scaled = is_scaled();
    FoldInputs inputs;
    for (int member = 0; member < channel().size(); ++member) {
      const auto index = static_cast<std::size_t>(member);
      if (member == channel().rank()) {
        // Its own slot may be the peer's by now.
        inputs.data[index] = request_.inputs.flat().data;
        if (scaled) inputs.factors[index] = request_.op.factor();
        continue;
      }
      const Slot& slot = slots_.slot(member, use_);
      if (scaled) inputs.factors[index] = slot.factor;
      if (few)
        inputs.data[index] = slot.few;
      else
        inputs.data[index] =
            slot.more() + SlotFlag::offset(slot.flag.load(std::memory_order_relaxed));
    }
    reduce_all(reducer_, inputs.data.data(), channel().size(), request_.outputs.flat().data, count,
               scaled ? inputs.factors.data() : nullptr);
  }

  ShownSlots& slots_;
  const Request& request_;
  Reducer reducer_;
  std::uint64_t use_ = 0;
  unsigned signature_ = 0;
  int seen_ = 0;
};

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
  if (channel_->size() > most_at_once)
    return Verdict::no(fmt::format("more than {} members", most_at_once));
  if (request.inputs.flat().bytes() > capacity_)
    return Verdict::no(fmt::format("more than the {} bytes of a slot", capacity_));
  return can_reduce_in_memory(request);
}

Operation& ShownSlots::prepare(OperationStorage& storage, const Call& call) {
  return storage.emplace<ShowOperation>(*this, call);
}

}  // namespace hymn
