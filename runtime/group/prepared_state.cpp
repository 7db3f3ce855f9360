#include "runtime/group/prepared_state.hpp"

#include "runtime/group/work_starter.hpp"

namespace hymn {
namespace detail {

PreparedState::PreparedState(GroupState& group, const Request& request, const CallOptions& options)
    : group_(group.shared_from_this()), request_(request), options_(options) {
  group.health().require_usable("prepare");
  if (group.health().is_aborted()) std::rethrow_exception(group.health().aborted_error("prepare"));
  if (group.members().is_member()) ready_ = make_ready();
}

ReadyCall PreparedState::make_ready() const {
  Request request = request_.get();
  if (options_.stream != nullptr) request.domain = {OrderingDomain::Kind::stream, options_.stream};
  Call call;
  std::shared_ptr<const Request> matched;
  call.request = &group_->checked(request, matched, call.peer);
  call.sequence = group_->record().next_sequence(request.type);
  OperationStorage storage;
  Algorithm& algorithm = group_->prepare(storage, call);
  // These are looked at each time.
  if (matched != nullptr || options_.stream != nullptr) return {};
  return {call.peer, &algorithm};
}

RecvStatus PreparedState::run(const void* site) const {
  return group_->run(request_.get(), options_, site, ready_);
}

Work PreparedState::start(const void* site) const {
  return Work(WorkStarter(*group_, options_, site).start(request_.get()));
}

}  // namespace detail

namespace {

const detail::PreparedState& need(const std::shared_ptr<const detail::PreparedState>& state) {
  if (!state)
    throw UsageError("this PreparedCall is empty",
                     {.remedy = "take one from ProcessGroup::prepare"});
  return *state;
}

}  // namespace

RecvStatus PreparedCall::run() const { return need(state_).run(__builtin_return_address(0)); }
Work PreparedCall::start() const { return need(state_).start(__builtin_return_address(0)); }

PreparedCall ProcessGroup::prepare(const Request& request, const CallOptions& options) const {
  return PreparedCall(
      std::make_shared<const detail::PreparedState>(detail::need(state_), request, options));
}

}  // namespace hymn
