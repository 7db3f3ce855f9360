#include "runtime/group/group_works.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/group/group_state.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn::detail {

std::vector<std::shared_ptr<WorkState>> GroupWorks::all() const {
  return group_.world().engine->pending(
      [this](const WorkState& work) { return &work.group() == &group_; });
}

void GroupWorks::end_given_up() { tell_all(end_untold()); }

void GroupWorks::abandon(const std::string& reason) {
  auto works = all();
  std::erase_if(works, [&reason](const auto& work) { return !work->abandon(reason); });
  tell_all(works);
}

std::vector<std::shared_ptr<WorkState>> GroupWorks::end_untold() {
  if (!group_.health().is_aborted() || !group_.world().life.may_end_works()) return {};
  auto works = all();
  std::erase_if(works, [](const auto& work) { return !work->end_given_up(); });
  return works;
}

bool GroupWorks::drain() {
  const auto works = all();
  if (works.empty()) return true;
  const bool unwound = group_.world().life.is_unwound();
  // A rank that leaves by an exception may be the one that everybody waits for.
  const bool ended = !unwound && await_all(works);
  GroupHealth& health = group_.health();
  const auto forsaken = std::find_if(works.begin(), works.end(), [](const auto& work) {
    return work->name().is_ordered() && !work->is_completed();
  });
  if (unwound)
    health.leave_because_of_failure();
  else if (forsaken != works.end())
    health.leave_before((*forsaken)->name().title());
  const std::string reason =
      health.is_aborted()
          ? health.abort_failure().reason
          : fmt::format("group '{}' was destroyed before this completed", group_.members().label());
  abandon(reason);
  return ended;
}

bool GroupWorks::await_all(std::span<const std::shared_ptr<WorkState>> works) {
  const Clock& clock = group_.world().clock();
  const Deadline deadline = Deadline::after(group_.timeout(), clock.now());
  bool all_ended = true;
  for (const auto& work : works) {
    try {
      WorkWait(*work).wait(deadline.is_never() ? Timeout::none()
                                               : Timeout(deadline.when() - clock.now()));
    } catch (const std::exception&) {
      // Told by the work itself to whoever looks at it.
      all_ended = all_ended && work->is_completed();
    }
  }
  return all_ended;
}

}  // namespace hymn::detail
