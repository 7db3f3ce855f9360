// Starts calls of a group that return while they are in flight.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"

namespace hymn::detail {

/// What a batch is beside its messages.
struct BatchTraits {
  bool is_joint = false;                 ///< as WorkName
  std::shared_ptr<const void> memory{};  ///< as WorkParts::own()
};

/// Of one call.
class WorkStarter {
 public:
  /// `site`: where the call returns to in the user's code.
  WorkStarter(GroupState& group, const CallOptions& options, const void* site = nullptr)
      : group_(group), options_(options), site_(site_of(options, site)) {}

  // Null, with nothing started, inside a scope of this thread's on this group: it has captured the
  // calls.
  std::shared_ptr<WorkState> start(const Request& request);
  /// Puts an operation of its own into `part`, which begins with what `algorithm` does for the
  /// request.
  using Compose = std::function<void(WorkPart& part, Algorithm& algorithm)>;
  /// `memory`: as WorkParts::own(). Not inside a scope.
  std::shared_ptr<WorkState> start_composed(const Request& request,
                                            std::shared_ptr<const void> memory,
                                            const Compose& compose);
  std::shared_ptr<WorkState> start_batch(std::span<const P2POp> operations,
                                         const BatchTraits& traits = {});
  /// As one batch. Throws UsageError where the buffers overlap, as far as it is known where they
  /// end.
  std::shared_ptr<WorkState> start_sendrecv(const P2POp& send, const P2POp& recv,
                                            const BatchTraits& traits = {});
  /// Throws what is wrong with a send or recv, and UnsupportedError where its buffer is in the
  /// memory of a GPU, or of elements whose layout MPI alone knows.
  void require_copyable(const Request& request) const;
  std::shared_ptr<WorkState> start_coalesced(std::span<const Request> requests);
  /// True inside such a scope. Throws UsageError for what cannot be in it.
  bool capture(std::span<const Request> requests) const;
  /// What a scope that has ended has captured; null: nothing.
  std::shared_ptr<WorkState> start_captured(const CapturedCalls& calls);
  /// Of those that it coalesces; by default, what is fast.
  WorkStarter& bundling(BundleLimits limits) {
    bundles_ = limits;
    return *this;
  }

 private:
  /// All coalesced requests as one part.
  void add_whole(WorkState& work, std::span<const Request> requests) const;
  void prepare_whole(WorkPart& part, std::span<const Request* const> requests) const;
  std::shared_ptr<WorkState> make_work(OpType type, bool is_joint = false) const;
  Request ordered(const Request& request) const;
  void add_part(WorkState& work, const Request& request) const;
  /// After all parts of the work were added; `asked` as in GroupState::require_members().
  void prepare_parts(WorkState& work, const GroupState::Asked* asked) const;
  Algorithm& pick(const Call& call) const;
  /// `requests`: as they were given.
  void launch(const std::shared_ptr<WorkState>& work, std::span<const Request> requests) const;
  void examine(const WorkState& work, const CallContext& note) const;
  void carry_out(const std::shared_ptr<WorkState>& work, const CallContext& note) const;

  GroupState& group_;
  const CallOptions& options_;
  const void* site_;
  BundleLimits bundles_{};
};

}  // namespace hymn::detail
