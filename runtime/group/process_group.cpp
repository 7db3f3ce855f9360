#include "hymn/process_group.hpp"

#include <fmt/format.h>

#include "base/schedule_point.hpp"
#include "runtime/group/device_barrier.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/message_probe.hpp"
#include "runtime/group/send_recv.hpp"
#include "runtime/group/work_starter.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn {

namespace {

[[noreturn]] void throw_empty() {
  throw UsageError("this ProcessGroup is empty", {.remedy = "take one from a World"});
}

}  // namespace

detail::GroupState& detail::need(const std::shared_ptr<GroupState>& state) {
  if (!state) throw_empty();
  return *state;
}

detail::GroupState& detail::need(const ProcessGroup& group) {
  GroupState* const state = GroupState::of(group);
  if (state == nullptr) throw_empty();
  return *state;
}

namespace {

/// Of a group that lives, in a world that does.
const detail::GroupMembers& registered(const detail::GroupState& state, const char* operation) {
  const detail::GroupMembers& members = state.members();
  if (state.health().is_destroyed() || state.world().life.is_destroyed()) {
    ErrorContext context = members.context(operation);
    context.remedy = "take a group from a World that lives";
    throw UsageError(
        fmt::format("group '{}' is not registered: it has been destroyed, or its world has",
                    members.label()),
        std::move(context));
  }
  return members;
}

}  // namespace

int ProcessGroup::rank() const { return need(state_).members().shape().rank; }
int ProcessGroup::size() const { return need(state_).members().shape().size; }
const std::string& ProcessGroup::description() const {
  return need(state_).members().description();
}
const Membership& ProcessGroup::membership() const { return need(state_).members().membership(); }
int ProcessGroup::global_rank(int group_rank) const {
  return registered(need(state_), "global_rank").global_rank(group_rank);
}
int ProcessGroup::group_rank(int global_rank) const {
  return registered(need(state_), "group_rank").group_rank(global_rank);
}
std::uint64_t ProcessGroup::comm_split_count() const { return need(state_).means().comm_splits(); }
std::vector<AlgorithmUse> ProcessGroup::uses() const { return need(state_).means().uses(); }
Timeout ProcessGroup::timeout() const { return need(state_).timeout(); }
void ProcessGroup::set_timeout(Timeout timeout) { need(state_).set_timeout(timeout); }

std::uint64_t ProcessGroup::collective_sequence() const {
  return need(state_).record().collective_sequence();
}
std::uint64_t ProcessGroup::p2p_sequence() const { return need(state_).record().p2p_sequence(); }

void ProcessGroup::require_no_scope(const char* call) const {
  detail::GroupState& state = detail::need(state_);
  state.works().scopes().require_none(call, state.members());
}

RecvStatus ProcessGroup::run(const Request& request, const CallOptions& options) {
  return need(state_).run(request, options, __builtin_return_address(0));
}
Work ProcessGroup::start(const Request& request, const CallOptions& options) {
  return Work(
      detail::WorkStarter(need(state_), options, __builtin_return_address(0)).start(request));
}
Work ProcessGroup::start_coalesced(std::span<const Request> requests, const CallOptions& options) {
  return Work(detail::WorkStarter(need(state_), options, __builtin_return_address(0))
                  .start_coalesced(requests));
}
Explanation ProcessGroup::explain(const Request& request) const {
  return need(state_).explain(request);
}
Work ProcessGroup::batch_isend_irecv(std::span<const P2POp> operations,
                                     const CallOptions& options) {
  return Work(detail::WorkStarter(need(state_), options, __builtin_return_address(0))
                  .start_batch(operations));
}

CallOptions ProcessGroup::on_devices(std::span<const int> device_ids,
                                     const CallOptions& options) const {
  return detail::on_devices(need(state_), device_ids, options);
}
void ProcessGroup::refuse_device_id(std::int64_t device_id) const {
  detail::refuse_device_id(need(state_), device_id);
}

RecvStatus ProcessGroup::sendrecv(ConstBufferView in, int destination, int send_tag, BufferView out,
                                  int source, int recv_tag, const CallOptions& options) {
  return detail::SendRecv(need(state_), options, __builtin_return_address(0))
      .run(P2POp::send(in, destination, send_tag), P2POp::recv(out, source, recv_tag));
}
Work ProcessGroup::sendrecv_async(ConstBufferView in, int destination, int send_tag, BufferView out,
                                  int source, int recv_tag, const CallOptions& options) {
  return Work(detail::WorkStarter(need(state_), options, __builtin_return_address(0))
                  .start_sendrecv(P2POp::send(in, destination, send_tag),
                                  P2POp::recv(out, source, recv_tag)));
}
RecvStatus ProcessGroup::sendrecv_replace(BufferView inout, int destination, int send_tag,
                                          int source, int recv_tag, const CallOptions& options) {
  return detail::SendRecv(need(state_), options, __builtin_return_address(0))
      .replace(P2POp::send(inout, destination, send_tag), P2POp::recv(inout, source, recv_tag));
}

MessageInfo ProcessGroup::probe(int source, int tag, const CallOptions& options) {
  return detail::MessageProbe(need(state_), source, tag).wait(options, __builtin_return_address(0));
}
std::optional<MessageInfo> ProcessGroup::iprobe(int source, int tag) {
  auto found = detail::MessageProbe(need(state_), source, tag).look();
  if (!found) leave_turn_to_others();
  return found;
}

void ProcessGroup::abort(const std::string& reason) {
  detail::GroupState& state = need(state_);
  state.health().abort_for(reason);
  state.works().end_given_up();
}
bool ProcessGroup::is_aborted() const {
  detail::GroupState& state = need(state_);
  if (!answered(state.health().is_aborted())) return false;
  state.works().end_given_up();
  return true;
}

ProcessGroup ProcessGroup::shrink() {
  detail::GroupState& state = need(state_);
  return state.world().groups.shrink(state);
}

void ProcessGroup::on_completion(CompletionHook hook) {
  detail::GroupState& state = need(state_);
  state.health().require_usable("on_completion");
  state.watch().on_completion(std::move(hook));
}
void ProcessGroup::wait_for_pending_works(Timeout timeout) {
  detail::GroupState& state = need(state_);
  state.world().life.require_here(state.members().context("wait_for_pending_works"));
  const auto is_own = [&state](const detail::WorkState& work) { return &work.group() == &state; };
  state.watch().settle(state.world().engine->pending(is_own), timeout);
}

void ProcessGroup::destroy() { need(state_).destroy(); }
bool ProcessGroup::is_destroyed() const { return need(state_).health().is_destroyed(); }

}  // namespace hymn
