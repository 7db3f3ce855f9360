// A collective in rounds over a SlotRing: what all of them have in common.
#pragma once

#include "collectives/shm/shm_models.hpp"
#include "collectives/shm/slot_ring.hpp"
#include "collectives/shm/step_budget.hpp"
#include "collectives/shm_base/shm_operation.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {

/// Gives and takes as far as slots and peers allow, always both, so that copying in and copying out
/// overlap between members.
class SlotOperation : public ShmOperation {
 protected:
  SlotOperation(SlotRing& ring, const Call& call)
      : ShmOperation(ring.channel(), call),
        ring_(ring),
        request_(*call.request),
        root_(call.peer) {}

  /// How an operation is cut once it is known how many bytes a slot holds.
  struct RoundPlan {
    std::uint64_t rounds = 0;   ///< the same on all members
    std::uint64_t to_give = 0;  ///< the first so many are those in which this member shows data
    bool takes = true;          ///< whether this member reads what others show
  };
  /// The most bytes that a member shows, the same on all members.
  virtual std::size_t shown_bytes() const = 0;
  /// May cut differently from what `room` suggests, but never shows more than that at once.
  virtual RoundPlan plan_rounds(std::size_t room) = 0;
  /// Shows this member's data of a round: fills room(…), then calls show().
  virtual void give(std::uint64_t round) = 0;
  /// Takes what is there, and moves taken_ on; false: nothing was. Who takes many pieces at once
  /// adds what it has moved, and leaves the rest when this step has used its budget.
  virtual bool take() = 0;

  SlotRing& ring() const { return ring_; }
  const Request& request() const { return request_; }
  int root() const { return root_; }
  int rank() const { return channel().rank(); }
  int size() const { return channel().size(); }
  /// The rounds of this operation are first_round() … end_round() - 1; index counts from 0.
  std::uint64_t first_round() const { return first_; }
  std::uint64_t end_round() const { return end_; }
  std::size_t index(std::uint64_t round) const { return static_cast<std::size_t>(round - first_); }

  /// The next round to give: this member's data of all rounds before is where others find it.
  std::uint64_t next_to_give() const { return given_; }

  /// Where this member puts what it shows; `like` is where it comes from: both lie equally far from
  /// a line, for copies between addresses that do not are slower by a factor.
  std::byte* room(std::uint64_t round, const void* like) {
    if (size_ > SlotRing::Size::near)
      ring_.head(rank(), round).place += reinterpret_cast<std::uintptr_t>(like) % 64;
    return ring_.data(rank(), round, size_);
  }
  /// That place once more, after show().
  std::byte* own_room(std::uint64_t round) const { return ring_.data(rank(), round, size_); }
  void show(std::uint64_t round);
  /// What a member shows in a round; null: nothing yet. UsageError when it is for another call.
  const std::byte* shown(int member, std::uint64_t round) const {
    const std::uint64_t flag = ring_.flag(member, round, is_tiny()).load(std::memory_order_acquire);
    if (flag != RoundFlag::make(round, mixed_, 0)) {
      if (!is_for_this_call(member, round, flag)) throw_for(member);
      return nullptr;
    }
    return ring_.data(member, round, size_);
  }
  double factor(int member, std::uint64_t round) const { return ring_.head(member, round).factor; }

  /// What this step does.
  StepBudget& budget() { return budget_; }

  /// Tells calls apart whose labels are the same, but which are cut differently.
  void mix(std::uint64_t value) { mixed_ = mix_in(mixed_, value); }

  std::uint64_t taken_ = 0;  ///< the next round to take from anybody

 private:
  void begin() final;
  bool advance() final;
  bool plan();
  bool is_tiny() const { return size_ == SlotRing::Size::tiny; }
  bool is_for_this_call(int member, std::uint64_t round, std::uint64_t flag) const;
  bool give_next();

  SlotRing& ring_;
  const Request& request_;
  int root_;
  bool planned_ = false;
  std::size_t piece_bytes_ = 0;  ///< the most that is shown at once
  StepBudget budget_;
  SlotRing::Size size_ = SlotRing::Size::tiny;
  std::uint64_t mixed_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t given_ = 0;  ///< the next round to give
  std::uint64_t give_end_ = 0;
};

/// How many pieces that are.
constexpr std::uint64_t pieces_of(std::size_t bytes, std::size_t piece) {
  return bytes <= piece ? bytes != 0 : (bytes + piece - 1) / piece;
}

/// A result of this many bytes is written past the caches, where it would not stay. Measured with 2
/// ranks on 2 cores that share 32 MB of cache.
constexpr bool should_stream(std::size_t bytes) { return bytes > std::size_t{4} << 20; }

/// The algorithm whose operation is Op.
template <class Op>
class SlotAlgorithm : public Algorithm {
 public:
  explicit SlotAlgorithm(std::shared_ptr<SlotRing> ring)
      : SlotAlgorithm(shm_models::slots, std::move(ring)) {}
  Verdict can_run(const Request& request) const override {
    Verdict few = shm_limits::can_have_rings(ring_->channel().size());
    if (!few.ok) return few;
    if (reduces(Op::type)) return can_reduce_in_memory(request);
    if (request.outputs.dtype() == DataType::opaque)
      return Verdict::no("unknown MPI type: its layout is known to MPI alone");
    return Verdict::yes();
  }
  /// All inputs are folded at once, in rank order.
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<Op>(*ring_, call);
  }

 protected:
  SlotAlgorithm(const AlgorithmModel& model, std::shared_ptr<SlotRing> ring)
      : Algorithm(model, {Op::type}), ring_(std::move(ring)) {}

  std::shared_ptr<SlotRing> ring_;
};

}  // namespace hymn
