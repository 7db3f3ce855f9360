// A receive and a send at the same time, as one blocking call that does not touch the heap.
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
  Call call{};
  OperationStorage storage{};
  Algorithm* algorithm = nullptr;
  std::uint64_t record_id = 0;
  bool is_done = false;
};

/// The receive first.
using PairParts = std::array<PairPart, 2>;

class PairOperation final : public Operation {
 public:
  explicit PairOperation(PairParts& parts) : parts_(parts) {}

  void start() override;
  bool step() override;
  bool park(long nanoseconds) override;
  /// Only the last one parks: whoever slept in one would not move the other.
  bool can_park() const override;
  Awaited awaited() const override;
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override;

 private:
  PairParts& parts_;
};

/// Of one call. What is unusual of it is left to a batch, which ends alike in everything.
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
  bool is_plain(const Request& recv, const Request& send) const;
  void prepare();
  void carry_out(PairOperation& operation, const CallContext& note);
  void record(const CallContext& note);
  void record_end(CallState state, CallRing::Ended when) const;

  GroupState& group_;
  const CallOptions& options_;
  const void* site_;
  PairParts parts_;
};

}  // namespace hymn::detail
