// Calls of other libraries that may never return, and that nothing can end early.
#pragma once

#include <functional>
#include <vector>

#include "base/meeting.hpp"

namespace hymn {

/// Makes the call on a thread of its own, and waits until it has returned. When the deadline has
/// passed, or one of the ranks is hopeless that it cannot return without, it is left behind: this
/// throws TimeoutError, which names those ranks, and the thread stays in the call, perhaps until
/// the process ends; what the call uses must stay as long. What the call throws is thrown here.
void finish_or_leave(std::function<void()> call, const std::vector<int>& needed,
                     const Patience& patience);

/// Those of `needed` of whom nothing is to be expected any more.
std::vector<int> hopeless_among(const std::vector<int>& needed, const Patience& patience);

/// Throws the TimeoutError of who has waited so long, perhaps in vain for ranks that are hopeless.
[[noreturn]] void throw_left(const Patience& patience, const std::vector<int>& hopeless,
                             Duration waited);

}  // namespace hymn
