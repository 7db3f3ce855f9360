// The observer of the calling thread, if it has one.
#pragma once

#include <atomic>

#include "hymn/call_observer.hpp"

namespace hymn::detail {

class GroupMembers;

/// In the process. Calls look at this alone where it is 0.
extern std::atomic<int> call_observers;
CallObserver* find_call_observer();

inline CallObserver* call_observer() {
  return call_observers.load(std::memory_order_relaxed) == 0 ? nullptr : find_call_observer();
}

enum class CallForm : bool { blocks, in_flight };

/// To the observer of this thread. Returns what its waits are to name; 0: none of them.
std::uint64_t tell_observer(CallObserver& observer, const GroupMembers& members,
                            std::span<const Request> requests, CallForm form);

}  // namespace hymn::detail
