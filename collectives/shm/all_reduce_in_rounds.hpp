// What the all_reduces have in common in which a message goes in rounds through growing slots, and
// every element is folded from all members' inputs at once, in rank order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "collectives/shm/growing_slots.hpp"
#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm_base/shm_operation.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {

/// One member's state from use to use; touched in its turn only.
struct RoundsState {
  std::shared_ptr<ShmChannel> channel;
  int flags;  ///< the area
  GrowingSlots slots;
  Reproducibility reproducibility;
  std::uint64_t rounds = 0;  ///< of all uses so far
};

/// `Flags`: what a member has in the area of flags.
template <class Flags, class SharedState = RoundsState>
class RoundsOperation : public ShmOperation {
 public:
  using State = SharedState;

  RoundsOperation(State& shared, const Call& call)
      : ShmOperation(*shared.channel, call),
        shared_(shared),
        request_(*call.request),
        reducer_(reducer_for(request_.inputs.dtype(), request_.op, shared.reproducibility)) {}

 protected:
  void begin() final { advance(); }

  int me() const { return channel().rank(); }
  int size() const { return channel().size(); }
  Flags& flags(int member) const { return *channel().template at<Flags>(member, shared_.flags); }
  const std::byte* input(std::size_t element) const {
    return static_cast<const std::byte*>(request_.inputs.flat().data) +
           element * reducer_.element_bytes;
  }
  std::byte* output(std::size_t element) const {
    return static_cast<std::byte*>(request_.outputs.flat().data) + element * reducer_.element_bytes;
  }
  /// All members' inputs, which lie where `data_of` says; `factor_of`: a member's of premul_sum.
  void fold_all(auto&& data_of, auto&& factor_of, std::byte* to, std::size_t count,
                ResultPlaces places = {}) const {
    const bool scaled = request_.op.kind() == ReduceKind::premul_sum;
    FoldInputs inputs;
    for (int member = 0; member < size(); ++member) {
      const auto index = static_cast<std::size_t>(member);
      inputs.data[index] = data_of(member);
      if (scaled) inputs.factors[index] = factor_of(member);
    }
    reduce_all(reducer_, inputs.data.data(), size(), to, count,
               scaled ? inputs.factors.data() : nullptr, places);
  }

  State& shared_;
  const Request& request_;
  Reducer reducer_;
};

/// The algorithm whose operation is Op.
template <class Op>
class AllReduceInRounds final : public Algorithm {
 public:
  AllReduceInRounds(const AlgorithmModel& model, const ShmGroup& group, int flags,
                    GrowingSlots slots)
      : Algorithm(model),
        state_(RoundsState{group.channel, flags, slots, group.shape.reproducibility}) {}

  Verdict can_run(const Request& request) const override {
    return can_fold_in_memory(request, state_.channel->size());
  }
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<Op>(state_, call);
  }

 private:
  typename Op::State state_;
};

}  // namespace hymn
