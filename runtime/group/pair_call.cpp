#include "runtime/group/pair_call.hpp"

#include <utility>

#include "collectives/plain_request.hpp"
#include "collectives/validate_view.hpp"
#include "p2p/joined_residue.hpp"
#include "runtime/group/observed.hpp"

namespace hymn::detail {

// --- The two operations as one ---

void PairOperation::start() {
  for (PairPart& part : parts_) {
    part.is_started = true;  // it may have shown peers something when it fails here
    part.storage.get()->start();
  }
}

bool PairOperation::step() { return park(0); }

bool PairOperation::park(long nanoseconds) {
  for (PairPart& part : parts_)
    if (!part.is_done) step_one(part, nanoseconds);
  ended_ = CallRing::Ended::now;
  return parts_[0].is_done && parts_[1].is_done;
}

void PairOperation::step_one(PairPart& part, long nanoseconds) {
  part.is_done = group_.health().step(*part.storage.get(), part.call.request->type, nanoseconds);
  if (part.is_done)
    group_.world().ring().set_ended(part.record_id, CallState::completed, true, ended_);
}

bool PairOperation::can_park() const {
  return parts_[0].is_done != parts_[1].is_done && parts_[0].storage.get()->can_park() &&
         parts_[1].storage.get()->can_park();
}

Awaited PairOperation::awaited() const {
  auto found = Awaited::elsewhere;
  for (const PairPart& part : parts_) {
    if (part.is_done) continue;
    const Awaited one = part.storage.get()->awaited();
    if (one == Awaited::here) return one;
    if (one == Awaited::somewhere) found = one;
  }
  return found;
}

std::unique_ptr<AbandonedOperation> PairOperation::abandon(const std::string& reason) noexcept {
  std::unique_ptr<JoinedResidue> left;
  for (PairPart& part : parts_) {
    if (!part.is_started || std::exchange(part.is_done, true)) continue;
    JoinedResidue::add(left, part.storage.get()->abandon(reason));
  }
  return left;
}

// --- The call ---

PendingOp PairCall::pending() const {
  PendingOp op{.type = OpType::batch, .sequence = parts_[0].call.sequence};
  for (const PairPart& part : parts_) {
    if (part.is_done) continue;
    if (op.peers.empty()) op.first_part = part.call.sequence;
    op.peers.push_back(part.call.peer);
  }
  return op;
}

std::exception_ptr PairCall::hopeless(const GroupHealth& health,
                                      const std::function<bool()>& step) const {
  for (const PairPart& part : parts_) {
    if (part.is_done) continue;
    const auto step_it = [&] { return step() || part.is_done; };
    if (auto error = health.hopeless(pending_of(part.call), step_it)) return error;
  }
  return nullptr;
}

bool PairCall::is_plain() {
  const WorldContext& world = *group_.world_;
  if (options_.stream != nullptr || !group_.members_.is_member() ||
      group_.works_.scopes().are_open() || !group_.health_.is_sound() || !world.engine->is_idle() ||
      group_.watch_.is_watched() || world.settings.memory != nullptr || world.ring().timing() ||
      call_observer() != nullptr)
    return false;
  return find_peer(parts_[0].call) && find_peer(parts_[1].call) &&
         !overlap(parts_[1].call.request->inputs.flat(),
                  ConstBufferView(parts_[0].call.request->outputs.flat()));
}

// What is wrong with a call the batch tells.
bool PairCall::find_peer(Call& call) const {
  const Request& request = *call.request;
  const GroupShape shape = group_.members_.shape();
  const bool takes_any = awaits_message(request.type) && request.peer == any_source;
  call.peer = takes_any ? any_source : group_.members_.find_rank(request.peer);
  const bool is_of_another = takes_any || (call.peer >= 0 && call.peer != shape.rank);
  return is_of_another && is_plainly_right(request, shape, call.peer);
}

std::optional<RecvStatus> PairCall::try_run(const Request& recv, const Request& send) {
  parts_[0].call.request = &recv;
  parts_[1].call.request = &send;
  if (!is_plain()) return std::nullopt;
  return group_.works_.ending_what_is_given_up([this] {
    group_.require_living(OpType::batch);
    prepare();
    PairOperation operation(group_, parts_);
    carry_out(operation, {.site = site_, .limit = group_.limit_of(options_)});
    return std::optional(group_.members_.to_global(parts_[0].storage.get()->status()));
  });
}

// Numbers are taken when nothing can be wrong with either any more.
void PairCall::prepare() {
  GroupRecord& record = group_.record_;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Call& call = parts_[i].call;
    call.sequence = record.next_sequence(call.request->type) + i;
    call.order = record.next_order();
  }
  for (PairPart& part : parts_) part.algorithm = &group_.prepare(part.storage, part.call);
  for (PairPart& part : parts_) {
    part.call.sequence = record.take_sequence(part.call.request->type, *part.algorithm);
    part.record_id = group_.world_->ring().claim();
  }
}

void PairCall::carry_out(PairOperation& operation, const CallContext& note) {
  try {
    operation.start();
    // While what it sent is on its way.
    record(note);
    if (!operation.step()) group_.drive(operation, note.limit, *this);
  } catch (...) {
    // It may have failed before there was time for it; a second time changes nothing.
    record(note);
    record_failure();
    std::rethrow_exception(group_.given_up(operation, pending()));
  }
}

void PairCall::record(const CallContext& note) {
  for (PairPart& part : parts_)
    group_.record_.fill(part.record_id, *part.call.request, part.call, part.algorithm, note);
}

void PairCall::record_failure() const {
  for (const PairPart& part : parts_)
    if (!part.is_done) group_.world_->ring().set_ended(part.record_id, CallState::failed, true);
}

}  // namespace hymn::detail
