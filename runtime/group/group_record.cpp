#include "runtime/group/group_record.hpp"

#include <algorithm>

#include "recorder/call_facts.hpp"
#include "runtime/group/work_state.hpp"

namespace hymn::detail {
namespace {

std::int64_t recorded_timeout(Timeout timeout) {
  return timeout.is_none() ? CallRecord::no_timeout : timeout.duration().count();
}

}  // namespace

void GroupRecord::show_timeout(Timeout timeout) {
  line_->timeout_ns.store(recorded_timeout(timeout), std::memory_order_release);
}

std::uint64_t GroupRecord::next_sequence(OpType type) const {
  return (is_collective(type) ? line_->collectives : line_->p2ps).load(std::memory_order_relaxed) +
         1;
}

std::uint64_t GroupRecord::take_sequence(OpType type) {
  // Collectives of a group are ordered by their callers; sends and receives need not be.
  if (!is_collective(type)) return line_->p2ps.fetch_add(1, std::memory_order_acq_rel) + 1;
  const std::uint64_t taken = line_->collectives.load(std::memory_order_relaxed) + 1;
  line_->collectives.store(taken, std::memory_order_release);
  return taken;
}

void GroupRecord::fill(std::uint64_t record_id, const Request& request, const Call& call,
                       const Algorithm* algorithm, const CallContext& note) {
  if (!ring_.is_on()) return;
  CallRecord made;
  made.group_uid = uid_;
  made.op_id =
      call.sequence + (is_collective(request.type) ? p2p_sequence() : collective_sequence());
  made.sequence = call.sequence;
  made.type = request.type;
  made.kind = request.op.kind();
  made.peer = request.peer;
  made.shadowed = is_collective(request.type) &&
                  (line_->flags.load(std::memory_order_relaxed) & GroupLine::shadows) != 0;
  made.on_gpu = request.memory() == MemoryKind::device;
  made.method = algorithm == nullptr ? 0 : algorithm->recorded_as();
  made.input = side_of(request.inputs);
  made.output = side_of(request.outputs);
  if (call.coalesced != 0) [[unlikely]]
    record_whole(made, call);
  if (has_tag(request.type)) set_tag(made, static_cast<std::uint32_t>(request.tag));
  made.timeout_ns = recorded_timeout(note.limit);
  made.created = note.started != 0 ? note.started : time_stamp();
  if (note.started != 0) {
    made.started = note.started + 1;
    made.state = CallState::started;
  }
  made.waited_for = !note.in_background;
  made.site = reinterpret_cast<std::uintptr_t>(note.site);
  made.own_shapes = has_own_shapes(request.inputs) || has_own_shapes(request.outputs);
  if (made.own_shapes || has_own_sizes(made.input) || has_own_sizes(made.output)) [[unlikely]]
    ring_.keep_sizes(record_id, request);
  ring_.fill(record_id, made);
}

std::uint64_t GroupRecord::add_refused(const Request& request, const void* site, Timeout limit) {
  Call call;
  call.request = &request;
  call.sequence = take_sequence(request.type);
  const std::uint64_t record_id = ring_.claim();
  fill(record_id, request, call, nullptr, {site, limit, ring_.timing() ? time_stamp() : 0});
  return record_id;
}

void GroupRecord::enqueue(const WorkState& work) {
  std::lock_guard lock(mutex_);
  const std::uint64_t sequence = work.name().sequence;
  ordered_.insert(std::ranges::upper_bound(ordered_, sequence), sequence);
  ordered_count_.fetch_add(1, std::memory_order_acq_rel);
}

bool GroupRecord::is_next(const WorkState& work) const {
  std::lock_guard lock(mutex_);
  return ordered_.empty() || ordered_.front() == work.name().sequence;
}

void GroupRecord::dequeue(const WorkState& work, bool well) {
  std::lock_guard lock(mutex_);
  const auto place = std::ranges::find(ordered_, work.name().sequence);
  if (place == ordered_.end()) return;
  ordered_.erase(place);
  if (well)
    completed_works_ = std::max(completed_works_, work.name().sequence);
  else
    one_has_failed_ = true;
  if (one_has_failed_) return;
  store_completed();
  ordered_count_.fetch_sub(1, std::memory_order_acq_rel);
}

void GroupRecord::note_completed_early(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  completed_early_ = sequence;
  if (!one_has_failed_) store_completed();
}

void GroupRecord::store_completed() {
  std::uint64_t completed = std::max(completed_early_, completed_works_);
  if (!ordered_.empty()) completed = std::min(completed, ordered_.front() - 1);
  if (completed > line_->completed.load(std::memory_order_relaxed))
    line_->completed.store(completed, std::memory_order_release);
}

}  // namespace hymn::detail
