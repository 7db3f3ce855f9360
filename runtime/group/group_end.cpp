// How a group ends on this rank.
#include <fmt/format.h>

#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

void GroupState::destroy() {
  if (world_->life.is_copied() || destroyed_.exchange(true, std::memory_order_acq_rel)) return;
  line_->flags.fetch_or(GroupLine::ended, std::memory_order_acq_rel);
  if (is_member()) {
    const bool drained = drain();
    end_hooks();
    world_->groups.group_ended(*this, drained && !is_aborted());
  }
}

bool GroupState::drain() {
  bool all = true;
  ProgressEngine& engine = *world_->engine;
  const auto mine = engine.pending([this](const WorkState& work) { return &work.group() == this; });
  // A rank that leaves by an exception may be the one that everybody waits for.
  const Timeout patience = world_->life.is_leaving() ? Timeout(Duration::zero()) : timeout();
  const Deadline deadline = Deadline::after(patience, world_->clock().now());
  if (!mine.empty() && world_->life.is_leaving()) leave_because_of_failure();
  for (const auto& work : mine) {
    try {
      const Duration left =
          deadline.is_never() ? Duration::zero() : deadline.when() - world_->clock().now();
      work->wait(deadline.is_never() ? Timeout::none() : Timeout(left));
    } catch (const std::exception&) {
      // Told by the work itself to whoever looks at it.
      if (!work->is_completed()) all = false;
      work->abandon(fmt::format("group '{}' was destroyed before this completed", label()));
    }
  }
  return all;
}

void GroupState::end_hooks() {
  try {
    completions_.close(world_->logger, world_->patience("ending hooks", timeout()));
  } catch (const std::exception&) {
    // The rank leaves, or MPI is gone: the thread that is in one lets go of them when it returns.
  }
}

}  // namespace hymn::detail
