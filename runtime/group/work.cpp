#include "hymn/work.hpp"

#include <algorithm>
#include <chrono>

#include "hymn/error.hpp"
#include "runtime/group/any_work_wait.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn {
namespace {

detail::WorkState& need(const std::shared_ptr<detail::WorkState>& state) {
  if (!state) throw UsageError("this Work is empty", {.remedy = "take one from a group's call"});
  return *state;
}

}  // namespace

bool Work::test() { return detail::WorkWait(need(state_)).test(); }
bool Work::is_completed() const { return need(state_).is_completed(); }
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
  const bool is_limited = timeout.is_set() && !timeout.is_none();
  const Deadline deadline = Deadline::after(timeout);
  std::exception_ptr first_error;
  for (Work& work : works) {
    if (!work.valid()) continue;
    try {
      work.wait(is_limited ? Timeout(deadline.when() - std::chrono::steady_clock::now()) : timeout);
    } catch (...) {
      if (!work.is_completed()) throw;  // it has not ended: it was not, or no longer, waited for
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
}

std::size_t wait_any(std::span<Work> works, Timeout timeout) {
  std::vector<detail::WorkState*> all;
  std::vector<std::size_t> indexes;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!works[i].valid()) continue;
    if (works[i].is_completed()) return i;
    all.push_back(works[i].state_.get());
    indexes.push_back(i);
  }
  if (all.empty()) throw UsageError("there is no operation to wait for", {.operation = "wait_any"});
  // Handles may be dropped, by this program's callbacks, while this waits.
  const std::vector<Work> kept(works.begin(), works.end());
  detail::AnyWorkWait wait(all, timeout);
  const auto found = std::ranges::find(all, &wait.wait());
  return indexes[static_cast<std::size_t>(found - all.begin())];
}

OpType Work::type() const { return need(state_).name().type; }
std::uint64_t Work::sequence() const { return need(state_).name().sequence; }
std::string_view Work::path() const { return need(state_).parts().path(); }
std::string_view Work::algorithm() const { return need(state_).parts().algorithm(); }

}  // namespace hymn
