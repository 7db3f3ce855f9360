#include "runtime/group/observed.hpp"

#include "runtime/group/group_members.hpp"

namespace hymn {
namespace {

thread_local CallObserver* observer_of_this_thread = nullptr;

}  // namespace

std::atomic<int> detail::call_observers{0};

CallObserver* detail::find_call_observer() { return observer_of_this_thread; }

std::uint64_t detail::tell_observer(CallObserver& observer, const GroupMembers& members,
                                    std::span<const Request> requests, CallForm form) {
  static std::atomic<std::uint64_t> last{0};
  if (!members.is_member()) return 0;
  const std::uint64_t work = form == CallForm::blocks ? 0 : ++last;
  observer.called(
      {members.membership(), members.global_rank(members.shape().rank), requests, work});
  return work;
}

CallObserver::CallObserver() {
  if (observer_of_this_thread != nullptr)
    throw UsageError("another capture, or another observer, sees the calls of this thread",
                     {.remedy = "end that before; replay() what was captured inside it"});
  observer_of_this_thread = this;
  detail::call_observers.fetch_add(1, std::memory_order_relaxed);
}

CallObserver::~CallObserver() {
  detail::call_observers.fetch_sub(1, std::memory_order_relaxed);
  observer_of_this_thread = nullptr;
}

}  // namespace hymn
