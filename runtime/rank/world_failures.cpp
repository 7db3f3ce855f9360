#include "runtime/rank/world_failures.hpp"

#include "recorder/last_call.hpp"

namespace hymn::detail {

WorldFailures::Seen WorldFailures::seen_now(const GroupFailure& failure) const {
  return {failure, recorder_.view().ring().next_id()};
}

bool WorldFailures::has_gone_on_after(const Seen& seen) const {
  const RecorderView view = recorder_.view();
  return view.capacity() != 0 && hymn::has_gone_on_after(view, seen.calls);
}

// Who goes on after a failure, with other groups or other ranks, may well have meant to: then it
// is of no account.
GroupFailure WorldFailures::seen() const {
  return recorder_.view().capacity() == 0 ? GroupFailure() : cause();
}

GroupFailure WorldFailures::cause() const {
  std::lock_guard lock(mutex_);
  for (const Seen* const seen : {&first_failure_, &failed_message_})
    if (!seen->failure.missing.empty() && !has_gone_on_after(*seen)) return seen->failure;
  return {};
}

void WorldFailures::note_message(const GroupFailure& failure) {
  std::lock_guard lock(mutex_);
  failed_message_ = seen_now(failure);
}

void WorldFailures::note(const GroupFailure& failure) {
  std::lock_guard lock(mutex_);
  if (first_failure_.failure.missing.empty() || has_gone_on_after(first_failure_))
    first_failure_ = seen_now(failure);
}

void WorldFailures::forget() {
  std::lock_guard lock(mutex_);
  first_failure_ = {};
  failed_message_ = {};
}

}  // namespace hymn::detail
