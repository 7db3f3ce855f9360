#include "preload/recorded_call.hpp"

namespace hymn::preload {

Communicator* RecordedCall::find(MPI_Comm comm) {
  Communicator* const found = session_.communicators().find(comm);
  return found != nullptr && found->watched() != nullptr ? found : nullptr;
}

std::size_t RecordedCall::bytes_of(int count, MPI_Datatype type) {
  return count > 0 ? static_cast<std::size_t>(count) * session_.types().find(type).size : 0;
}

std::uint64_t RecordedCall::next(std::atomic<std::uint64_t>& count) const {
  if (session_.may_overlap()) return count.fetch_add(1, std::memory_order_acq_rel) + 1;
  const std::uint64_t next = count.load(std::memory_order_relaxed) + 1;
  count.store(next, std::memory_order_release);
  return next;
}

// A call that has failed leaves nothing behind that could be taken for a request.
bool RecordedCall::leaves_open(const MPI_Request* request, int code, std::uint64_t record,
                               const std::shared_ptr<WatchedGroup>& group) {
  if (code != MPI_SUCCESS || request == nullptr || *request == MPI_REQUEST_NULL) return false;
  const Requests::Added added = watch_->requests().add({*request, record, group});
  if (added.ended) end_open(*added.ended, CallState::completed);
  return added.is_followed;
}

void RecordedCall::end_open(const Requests::Open& open, CallState state) {
  watch_->record().end(open.record, state);
  if (open.group != nullptr) open.group->end_one();
}

void RecordedCall::begin_outer() {
  if (is_outer_) watch_->record().set_outer_call(call_names[index_of(call_)].data());
}

void RecordedCall::end_outer() {
  if (is_outer_) watch_->record().set_outer_call(nullptr);
}

}  // namespace hymn::preload
