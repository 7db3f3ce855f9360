#include "runtime/group/work_parts.hpp"

#include <algorithm>
#include <utility>

#include "runtime/group/group_state.hpp"

namespace hymn::detail {
namespace {

/// What stays behind, and the memory that it may still read or write.
class AbandonedWithMemory final : public AbandonedOperation {
 public:
  AbandonedWithMemory(std::unique_ptr<AbandonedOperation> operation,
                      std::shared_ptr<const void> memory)
      : memory_(std::move(memory)), operation_(std::move(operation)) {}
  bool done() override { return operation_->done(); }

 private:
  std::shared_ptr<const void> memory_;  // goes last
  std::unique_ptr<AbandonedOperation> operation_;
};

}  // namespace

void WorkParts::start() {
  on_host_ = std::none_of(parts_.begin(), parts_.end(), [](WorkPart* part) {
    const Request& request = part->request.get();
    return request.memory() == MemoryKind::device ||
           request.domain.kind == OrderingDomain::Kind::stream;
  });
  CallRing& ring = group_.world().ring();
  for (WorkPart* const part : parts_) {
    // Counted first: one that fails here may have its place in an order already, or have shown
    // peers something.
    ++started_;
    if (ring.timing()) ring.set_started(part->record_id);
    part->storage.get()->start();
  }
}

bool WorkParts::step(long nanoseconds) {
  bool all = true;
  for (WorkPart* const part : parts_) {
    if (!part->done) step_one(*part, nanoseconds);
    all = all && part->done;
  }
  return all;
}

bool WorkParts::step_one(WorkPart& part, long nanoseconds) {
  part.done = group_.health().step(*part.storage.get(), part.request.get().type, nanoseconds);
  if (part.done) {
    completed_.fetch_add(1, std::memory_order_relaxed);
    group_.world().ring().set_ended(part.record_id, CallState::completed, false);
  }
  return part.done;
}

std::exception_ptr WorkParts::hopeless() {
  for (WorkPart* const part : parts_) {
    if (part->done) continue;
    const Call& call = part->call;
    try {
      auto error = group_.health().hopeless({call.request->type, call.sequence, call.peer},
                                            [&] { return step_one(*part, 0); });
      if (error) return error;
    } catch (...) {
      return std::current_exception();
    }
  }
  return nullptr;
}

bool WorkParts::give_up(const std::string& reason) {
  bool clean = true;
  if (group_.health().is_aborted()) group_.health().note_given_up();
  std::size_t started = started_;
  for (WorkPart* const part : parts_) {
    if (started-- == 0) break;
    if (part->done.exchange(true)) continue;
    group_.world().ring().set_ended(part->record_id, CallState::failed, false);
    std::unique_ptr<AbandonedOperation> abandoned = part->storage.get()->abandon(reason);
    clean = clean && abandoned == nullptr;
    if (abandoned != nullptr && memory_ != nullptr)
      abandoned = std::make_unique<AbandonedWithMemory>(std::move(abandoned), memory_);
    group_.world().engine->keep(std::move(abandoned));
  }
  return clean;
}

void WorkParts::fail_unstarted() {
  for (WorkPart* const part : parts_)
    if (!part->done) group_.world().ring().set_ended(part->record_id, CallState::failed, true);
}

bool WorkParts::peers_need_steps() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](WorkPart* part) { return part->storage.get()->peers_need_steps(); });
}

bool WorkParts::can_park() const {
  return completed_.load(std::memory_order_relaxed) + 1 == parts_.size() &&
         std::all_of(parts_.begin(), parts_.end(),
                     [](WorkPart* part) { return part->storage.get()->can_park(); });
}

Awaited WorkParts::awaited() const {
  auto found = Awaited::elsewhere;
  for (WorkPart* const part : parts_) {
    if (part->done) continue;
    const Awaited one = part->storage.get()->awaited();
    if (one == Awaited::here) return one;
    if (one == Awaited::somewhere) found = one;
  }
  return found;
}

bool WorkParts::are_enqueued() const {
  return std::all_of(parts_.begin(), parts_.end(), [](WorkPart* part) {
    return part->done || part->storage.get()->is_enqueued();
  });
}

bool WorkParts::can_let_wait() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](WorkPart* part) { return part->storage.get()->can_let_wait(); });
}

void WorkParts::let_wait(void* stream) {
  for (WorkPart* const part : parts_)
    if (!part->done) part->storage.get()->let_wait(stream);
}

PendingOp WorkParts::pending(PendingOp op) const {
  if (parts_.size() == 1) op.peer = parts_.front()->call.peer;
  if (is_collective(op.type)) return op;
  for (WorkPart* const part : parts_) {
    if (part->done.load(std::memory_order_relaxed)) continue;
    if (op.peers.empty()) op.first_part = part->call.sequence;
    op.peers.push_back(part->call.peer);
  }
  return op;
}

std::string_view WorkParts::path() const {
  return parts_.empty() ? std::string_view() : parts_.front()->algorithm->path();
}

std::string_view WorkParts::algorithm() const {
  if (parts_.empty()) return {};
  const WorkPart& first = *parts_.front();
  return first.algorithm->model().name_for(first.call.request->type);
}

std::exception_ptr WorkParts::refusal() const {
  for (WorkPart* const part : parts_)
    if (auto refusal = part->storage.get()->refusal()) return refusal;
  return nullptr;
}

std::vector<BufferView> WorkParts::outputs() const {
  std::vector<BufferView> written;
  for (WorkPart* const part : parts_) {
    if (part->is_composed) continue;
    const auto views = part->request.get().outputs.views();
    written.insert(written.end(), views.begin(), views.end());
  }
  return written;
}

std::vector<RecvStatus> WorkParts::statuses() const {
  std::vector<RecvStatus> found;
  for (WorkPart* const part : parts_)
    if (part->request.get().type == OpType::recv)
      found.push_back(group_.members().to_global(part->storage.get()->status()));
  return found;
}

void WorkParts::show_waited_for(bool waited_for) const {
  for (WorkPart* const part : parts_)
    group_.world().ring().set_waited_for(part->record_id, waited_for);
}

void WorkParts::show_undriven(bool undriven) const {
  for (WorkPart* const part : parts_) group_.world().ring().set_undriven(part->record_id, undriven);
}

void WorkParts::show_retired() const {
  for (WorkPart* const part : parts_) group_.world().ring().set_retired(part->record_id);
}

}  // namespace hymn::detail
