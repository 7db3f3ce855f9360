#include "hymn/work.hpp"

#include <algorithm>
#include <vector>

#include "base/schedule_point.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_wait.hpp"
#include "runtime/group/works_wait.hpp"

namespace hymn {
namespace {

detail::WorkState& need(const std::shared_ptr<detail::WorkState>& state) {
  if (!state)
    throw UsageError(
        "this Work is empty",
        {.remedy = "take one from a group's call; calls inside a coalescing scope have "
                   "none, but the scope's start() gives that of all"});
  return *state;
}

}  // namespace

bool Work::test() { return answered(detail::WorkWait(need(state_)).test()); }
bool Work::is_completed() const { return answered(need(state_).is_completed()); }
void Work::wait() { detail::WorkWait(need(state_)).wait({}); }
void Work::wait(Timeout timeout) { detail::WorkWait(need(state_)).wait(timeout); }
void Work::wait_on(void* stream) { detail::WorkWait(need(state_)).wait_on(stream); }
std::exception_ptr Work::error() const { return need(state_).error(); }
std::vector<BufferView> Work::result() const { return need(state_).result(); }

RecvStatus Work::status() const {
  const auto statuses = need(state_).statuses();
  if (statuses.size() != 1)
    throw UsageError("this Work is not a single receive", {.remedy = "use statuses()"});
  return statuses.front();
}

std::vector<RecvStatus> Work::statuses() const { return need(state_).statuses(); }

Future<std::vector<BufferView>> Work::get_future() const {
  need(state_);
  return state_->future(state_);
}

void wait_all(std::span<Work> works, Timeout timeout) {
  // Callbacks of the program's may drop handles while this waits.
  const std::vector<Work> kept(works.begin(), works.end());
  std::vector<detail::WorkState*> all;
  for (const Work& work : kept)
    if (work.valid()) all.push_back(work.state_.get());
  detail::WorksWait(std::move(all), timeout, detail::WorksWait::For::all).all();
}

std::size_t wait_any(std::span<Work> works, Timeout timeout) {
  const std::vector<Work> kept(works.begin(), works.end());
  std::vector<detail::WorkState*> all;
  std::vector<std::size_t> indexes;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i].valid()) continue;
    if (kept[i].is_completed()) return i;
    all.push_back(kept[i].state_.get());
    indexes.push_back(i);
  }
  if (all.empty()) throw UsageError("there is no operation to wait for", {.operation = "wait_any"});
  detail::WorksWait wait(all, timeout, detail::WorksWait::For::any);
  const auto found = std::ranges::find(all, &wait.any());
  return indexes[static_cast<std::size_t>(found - all.begin())];
}

OpType Work::type() const { return need(state_).name().type; }
std::uint64_t Work::sequence() const { return need(state_).name().sequence; }
std::string_view Work::path() const { return need(state_).parts().path(); }
std::string_view Work::algorithm() const { return need(state_).parts().algorithm(); }

}  // namespace hymn
