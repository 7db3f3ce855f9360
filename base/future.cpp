#include "hymn/future.hpp"

#include <fmt/format.h>

#include "base/callback_scope.hpp"

namespace hymn {

Executor inline_executor() {
  // Also where the value was there already, so that what may be done there depends on no race.
  return [](const std::function<void()>& task) {
    const CallbackScope scope;
    task();
  };
}

namespace detail {

void throw_future_timeout(Timeout timeout) {
  const double seconds = std::chrono::duration<double>(timeout.duration()).count();
  throw TimeoutError(fmt::format("a future was not ready after {:.3f} s", seconds),
                     timeout.duration());
}

}  // namespace detail
}  // namespace hymn
