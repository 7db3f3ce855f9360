#include "runtime/group/pair_call.hpp"

#include <utility>

#include "collectives/plain_request.hpp"
#include "collectives/validate_view.hpp"
#include "recorder/stamp.hpp"
#include "runtime/group/observed.hpp"

namespace hymn::detail {
namespace {

/// What both have left behind.
class AbandonedPair final : public AbandonedOperation {
 public:
  AbandonedPair(std::unique_ptr<AbandonedOperation> one, std::unique_ptr<AbandonedOperation> other)
      : one_(std::move(one)), other_(std::move(other)) {}
  bool done() override {
    const bool is_one_done = one_->done();
    return other_->done() && is_one_done;
  }

 private:
  std::unique_ptr<AbandonedOperation> one_;
  std::unique_ptr<AbandonedOperation> other_;
};

}  // namespace

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

// As WorkParts does it.
void PairOperation::step_one(PairPart& part, long nanoseconds) {
  const GroupHealth& health = group_.health();
  const OpType type = part.call.request->type;
  if (health.may_take_wrongly(type)) return;
  bool is_done = false;
  try {
    Operation& operation = *part.storage.get();
    is_done = nanoseconds > 0 ? operation.park(nanoseconds) : operation.step();
  } catch (...) {
    // What it has failed of may be another's, too; it is given up with the group.
    if (!health.may_take_wrongly(type)) throw;
  }
  part.is_done = is_done && !health.may_take_wrongly(type);
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
  std::unique_ptr<AbandonedOperation> left;
  for (PairPart& part : parts_) {
    if (!part.is_started || std::exchange(part.is_done, true)) continue;
    auto abandoned = part.storage.get()->abandon(reason);
    if (left && abandoned)
      left = std::make_unique<AbandonedPair>(std::move(left), std::move(abandoned));
    else if (abandoned)
      left = std::move(abandoned);
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

bool PairCall::is_plain(const Request& recv, const Request& send) const {
  const GroupShape shape = group_.members_.shape();
  const WorldContext& world = *group_.world_;
  if (options_.stream != nullptr || !group_.members_.is_member() ||
      group_.works_.scopes().are_open() || !group_.health_.is_sound() || !world.engine->is_idle() ||
      group_.watch_.is_watched() || world.settings.memory != nullptr || world.ring().timing() ||
      call_observer() != nullptr)
    return false;
  return is_plainly_right(recv, shape, -1) && is_plainly_right(send, shape, -1) &&
         recv.peer != world.rank() && send.peer != world.rank() &&
         !overlap(send.inputs.flat(), ConstBufferView(recv.outputs.flat()));
}

std::optional<RecvStatus> PairCall::try_run(const Request& recv, const Request& send) {
  if (!is_plain(recv, send)) return std::nullopt;
  parts_[0].call.request = &recv;
  parts_[1].call.request = &send;
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
    std::shared_ptr<const Request> matched;
    (void)group_.checked(*call.request, matched, call.peer);
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
