// A receive and a send at the same time, as one blocking call. It touches the heap only where what
// carries them does.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runtime/group/blocked_call.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::detail {

/// One of the two.
struct PairPart {
  Call call;
  OperationStorage storage;
  Algorithm* algorithm = nullptr;
  std::uint64_t record_id = 0;
  bool is_started = false;
  bool is_done = false;
};

/// The receive first.
using PairParts = std::array<PairPart, 2>;

/// Their records are filled before the first step, and tell of each when it ends: whoever is still
/// waited for is found by the other's.
class PairOperation final : public Operation {
 public:
  PairOperation(GroupState& group, PairParts& parts) : group_(group), parts_(parts) {}

  void start() override;
  bool step() override;
  bool park(long nanoseconds) override;
  /// Only the last one parks: whoever slept in one would not move the other.
  bool can_park() const override;
  Awaited awaited() const override;
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override;

 private:
  void step_one(PairPart& part, long nanoseconds);

  GroupState& group_;
  PairParts& parts_;
  CallRing::Ended ended_ = CallRing::Ended::at_once;
};

/// Of one call. What is unusual of it is left to a batch; so is one beside works in flight, whose
/// callbacks may wait for what only moves with it.
class PairCall final : public BlockedCall {
 public:
  PairCall(GroupState& group, const CallOptions& options, const void* site)
      : group_(group), options_(options), site_(site) {}

  /// Nothing, with nothing done: a batch has to do it.
  std::optional<RecvStatus> try_run(const Request& recv, const Request& send);

  OpType type() const override { return OpType::batch; }
  PendingOp pending() const override;
  std::exception_ptr hopeless(const GroupHealth& health,
                              const std::function<bool()>& step) const override;

 private:
  bool is_plain();
  /// And whether the call is plain.
  bool find_peer(Call& call) const;
  void prepare();
  void carry_out(PairOperation& operation, const CallContext& note);
  void record(const CallContext& note);
  void record_failure() const;

  GroupState& group_;
  const CallOptions& options_;
  const void* site_;
  PairParts parts_;
};

}  // namespace hymn::detail
