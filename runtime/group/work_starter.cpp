#include "runtime/group/work_starter.hpp"

#include <fmt/format.h>

#include "base/error_context.hpp"
#include "base/recycled.hpp"
#include "collectives/coalesced_calls.hpp"
#include "collectives/validate_view.hpp"
#include "runtime/group/batch_memory.hpp"
#include "runtime/group/call_title.hpp"
#include "runtime/group/observed.hpp"
#include "runtime/group/self_messages.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn::detail {

// What a thread calls inside a scope of its own is started at the end of that.
bool WorkStarter::capture(std::span<const Request> requests) const {
  CapturedCalls* const calls = group_.works().scopes().of_this_thread();
  if (calls == nullptr) return false;
  return group_.works().ending_what_is_given_up([&] {
    for (const Request& request : requests) {
      if (!group_.admit(request.type)) continue;
      int peer = -1;
      std::shared_ptr<const Request> matched;
      (void)group_.checked(ordered(request), matched, peer, ToItself::allowed);
      try {
        calls->add(request, options_);
      } catch (...) {
        rethrow_with(group_.members_.context(std::string(to_string(request.type))));
      }
    }
    return true;
  });
}

std::shared_ptr<WorkState> WorkStarter::start_captured(const CapturedCalls& calls) {
  if (calls.requests().empty()) return nullptr;
  if (!calls.are_messages()) return start_coalesced(calls.requests());
  std::vector<P2POp> messages;
  for (const Request& request : calls.requests()) messages.push_back({request});
  return start_batch(messages);
}

std::shared_ptr<WorkState> WorkStarter::start(const Request& request) {
  if (capture({&request, 1})) return nullptr;
  return group_.works().ending_what_is_given_up([&] {
    const GroupState::Asked asked{request, options_, site_};
    const bool member = group_.admit(request.type);
    auto work = make_work(request.type);
    if (member) {
      add_part(*work, ordered(request));
      prepare_parts(*work, &asked);
    }
    launch(work, {&request, 1});
    return work;
  });
}

std::shared_ptr<WorkState> WorkStarter::start_composed(const Request& request,
                                                       std::shared_ptr<const void> memory,
                                                       const Compose& compose) {
  return group_.works().ending_what_is_given_up([&] {
    const GroupState::Asked asked{request, options_, site_};
    const bool member = group_.admit(request.type);
    auto work = make_work(request.type);
    work->parts().own(std::move(memory));
    if (member) {
      add_part(*work, request);
      WorkPart& part = *work->parts().all().front();
      part.is_composed = true;
      compose(part, pick(part.call));
      prepare_parts(*work, &asked);
    }
    launch(work, {&request, 1});
    return work;
  });
}

std::shared_ptr<WorkState> WorkStarter::make_work(OpType type, bool is_joint) const {
  return std::allocate_shared<WorkState>(
      RecyclingAllocator<WorkState>(), group_.shared_from_this(), group_.limit_of(options_),
      WorkName{type, group_.record_.next_sequence(type), is_joint});
}

// What stays in order with a stream says so itself, for it outlives the call.
Request WorkStarter::ordered(const Request& request) const {
  Request ordered = request;
  if (options_.stream != nullptr) ordered.domain = {OrderingDomain::Kind::stream, options_.stream};
  return ordered;
}

std::shared_ptr<WorkState> WorkStarter::start_batch(std::span<const P2POp> operations,
                                                    const BatchTraits& traits) {
  std::vector<Request> requests;
  for (const P2POp& operation : operations) {
    requests.push_back(operation.request);
    if (!is_message(operation.request.type))
      throw UsageError(fmt::format("a batch holds sends and receives, not {}",
                                   to_string(operation.request.type)),
                       group_.members_.context("batch"));
  }
  if (capture(requests)) return nullptr;
  return group_.works().ending_what_is_given_up([&] {
    const bool member = group_.admit(OpType::batch);
    auto work = make_work(OpType::batch, traits.is_joint);
    work->parts().own(traits.memory);
    if (member) {
      for (const Request& request : requests) add_part(*work, ordered(request));
      require_apart(work->parts(), group_.members_);
      prepare_self_messages(work->parts(), group_.members_);
      prepare_parts(*work, nullptr);
    }
    launch(work, requests);
    return work;
  });
}

std::shared_ptr<WorkState> WorkStarter::start_sendrecv(const P2POp& send, const P2POp& recv,
                                                       const BatchTraits& traits) {
  const ConstBufferView out(recv.request.outputs.flat());
  // Elements of a type of MPI's may be interleaved with each other.
  const bool are_known = can_move_bytes(send.request).ok && can_move_bytes(recv.request).ok;
  if (group_.members_.is_member() && are_known && overlap(send.request.inputs.flat(), out))
    throw UsageError("what is sent overlaps what is received",
                     {.rank = group_.world_->rank(),
                      .group = group_.members_.label(),
                      .operation = "sendrecv",
                      .remedy = "give buffers that lie apart, or call sendrecv_replace"});
  const P2POp both[] = {recv, send};
  return start_batch(both, traits);
}

void WorkStarter::require_copyable(const Request& request) const {
  int peer = -1;
  std::shared_ptr<const Request> matched;
  const bool is_device =
      group_.checked(request, matched, peer, ToItself::allowed).memory() == MemoryKind::device;
  const Verdict verdict = can_move_bytes(request);
  if (!is_device && verdict.ok) return;
  ErrorContext where = group_.members_.context(std::string(to_string(request.type)));
  where.remedy = "call sendrecv with two buffers";
  throw UnsupportedError(
      fmt::format("a copy is made of what is sent, but not {}",
                  is_device ? "in the memory of a GPU" : "of an " + verdict.reason),
      std::move(where));
}

std::shared_ptr<WorkState> WorkStarter::start_coalesced(std::span<const Request> requests) {
  try {
    require_one_kind(requests);
  } catch (...) {
    rethrow_with(group_.members_.context("start_coalesced"));
  }
  group_.works().scopes().require_none("start_coalesced", group_.members_);
  return group_.works().ending_what_is_given_up([&] {
    const OpType type = requests.front().type;
    const bool member = group_.admit(type);
    auto work = make_work(type);
    if (member) add_whole(*work, requests);
    launch(work, requests);
    return work;
  });
}

void WorkStarter::add_whole(WorkState& work, std::span<const Request> given) const {
  std::vector<Request> on_stream;
  if (options_.stream != nullptr)
    for (const Request& request : given) on_stream.push_back(ordered(request));
  const std::span<const Request> requests = on_stream.empty() ? given : on_stream;
  std::vector<std::shared_ptr<const Request>> matched(given.size());
  std::vector<const Request*> checked(given.size());
  int root = -1;
  for (std::size_t i = 0; i < given.size(); ++i)
    checked[i] = &group_.checked(requests[i], matched[i], root);
  try {
    require_one_whole(checked, group_.members_.shape(), root);
  } catch (...) {
    rethrow_with(group_.members_.context(work.name().title()));
  }
  WorkPart& part = work.parts().emplace(std::in_place, [&] { return whole_of(checked); });
  part.call.request = &part.request.get();
  part.call.peer = root;
  part.call.sequence = work.name().sequence;
  part.call.order = group_.record_.next_order();
  part.call.coalesced = given.size();
  part.call.in_given_blocks = have_given_blocks(checked);
  part.call.in_own_bundles = !group_.means_.selector->knows_gpus() && bundles_ != BundleLimits{};
  if (!group_.health_.is_sound()) [[unlikely]]
    group_.require_members(work.name().type, nullptr);
  prepare_whole(part, checked);
}

// Where a member's buffers lie, in the memory of a GPU or not, the others do not know: so only a
// group without GPUs bundles them.
void WorkStarter::prepare_whole(WorkPart& part, std::span<const Request* const> requests) const {
  const GroupShape shape = group_.members_.shape();
  Selector& selector = *group_.means_.selector;
  try {
    const BundleLimits limits = selector.knows_gpus() ? BundleLimits{0, 0} : bundles_;
    part.coalesced = &part.storage.emplace<CoalescedOperation>(
        selector, CoalescedPlan{requests, shape, limits, &part}, part.call);
    part.algorithm = &part.coalesced->first_algorithm();
  } catch (...) {
    rethrow_with(group_.members_.context(title_of(part.call)));
  }
}

void WorkStarter::add_part(WorkState& work, const Request& given) const {
  int peer = -1;
  std::shared_ptr<const Request> matched;
  const bool is_batch = work.name().type == OpType::batch;
  const Request& request =
      group_.checked(given, matched, peer, is_batch ? ToItself::allowed : ToItself::refused);
  const std::uint64_t sequence = group_.record_.next_sequence(given.type) + work.parts().size();
  WorkPart& part = work.parts().emplace(request);
  part.call.request = &part.request.get();
  part.call.peer = peer;
  part.call.sequence = sequence;
  part.call.order = group_.record_.next_order();
}

// All of them are right by themselves: only now a member that is gone may be the end of the group.
void WorkStarter::prepare_parts(WorkState& work, const GroupState::Asked* asked) const {
  if (!group_.health_.is_sound()) [[unlikely]]
    group_.require_members(work.name().type, asked);
  for (WorkPart* const part : work.parts().all()) {
    // What a rank sends to itself is there already, and counts as that which carries the others.
    const bool is_there = part->storage.get() != nullptr;
    part->algorithm = is_there ? &pick(part->call) : &group_.prepare(part->storage, part->call);
  }
}

Algorithm& WorkStarter::pick(const Call& call) const {
  try {
    return group_.means_.selector->pick(*call.request);
  } catch (...) {
    rethrow_with(group_.members_.context(title_of(call)));
  }
}

void WorkStarter::launch(const std::shared_ptr<WorkState>& work,
                         std::span<const Request> requests) const {
  if (CallObserver* const observer = call_observer()) [[unlikely]]
    work->observe_as(tell_observer(*observer, group_.members_, requests, CallForm::in_flight));
  carry_out(work, {.site = site_,
                   .limit = group_.limit_of(options_),
                   .in_background = true,
                   .bundle_bytes = bundles_.together});
  if (options_.stream != nullptr) WorkWait(*work).await_enqueued();
}

// What can still go wrong before a number is taken.
void WorkStarter::examine(const WorkState& work, const CallContext& note) const {
  try {
    if (group_.watch_.is_watched()) [[unlikely]]
      for (WorkPart* const part : work.parts().all()) group_.checks_.examine_part(part->call, note);
    for (WorkPart* const part : work.parts().all())
      group_.gpu_.await_ready(*part->storage.get(), part->call, note.limit);
  } catch (...) {
    group_.checks_.end_meeting(work.name().type);
    throw;
  }
}

void WorkStarter::carry_out(const std::shared_ptr<WorkState>& work, const CallContext& note) const {
  examine(*work, note);
  for (WorkPart* const part : work->parts().all()) {
    part->call.sequence = group_.record_.take_sequence(part->call.request->type, *part->algorithm);
    if (part->coalesced != nullptr) {
      part->coalesced->count_uses();
      group_.record_.add_parts(part->coalesced->parts() - 1);
    }
    part->record_id = group_.world_->ring().claim();
    group_.record_.fill(part->record_id, *part->call.request, part->call, part->algorithm, note);
  }
  if (work->name().is_ordered() && group_.members_.is_member()) group_.record_.enqueue(*work);
  try {
    work->start();
  } catch (...) {
    if (work->name().is_ordered()) group_.record_.dequeue(*work, false);
    throw;
  }
  // Nothing to do on a rank outside the group: complete at once.
  if (!group_.members_.is_member() || work->parts().empty()) {
    work->step();
    return;
  }
  if (work->ends_at_once()) return;
  work->begin_limit();
  group_.world_->engine->add(work);
  // Another thread may have been told meanwhile, when this was not in flight yet.
  group_.works().end_given_up();
}

}  // namespace hymn::detail
