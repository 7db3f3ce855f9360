// Calls of other libraries that may never return, and that nothing can end early.
#pragma once

#include <functional>
#include <vector>

#include "base/patience.hpp"

namespace hymn {

/// Makes the call on a thread of its own, and waits until it has returned. When the deadline has
/// passed, or one of the ranks is hopeless that it cannot return without, it is left behind: this
/// throws TimeoutError, which names those ranks, and the thread stays in the call, perhaps until
/// the process ends; what the call uses must stay as long. So it is when the patience throws, which
/// is thrown here; and so is what the call throws.
void finish_or_leave(std::function<void()> call, const std::vector<int>& needed,
                     const Patience& patience);

/// Makes the call on this thread, where no other may make it. What would be thrown above, but for
/// what the patience's `meanwhile` throws, is told to `give_up` on another thread. It should end
/// the process: this thread does not come back before the call does.
void finish_or_give_up(const std::function<void()>& call, const std::vector<int>& needed,
                       const Patience& patience, const std::function<void(const Error&)>& give_up);

/// Throws the TimeoutError of a wait that has ended so, perhaps in vain for ranks that are
/// hopeless.
[[noreturn]] void throw_left(const Patience& patience, const PatientWait& wait);

}  // namespace hymn
