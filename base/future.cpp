#include "hymn/future.hpp"

#include <fmt/format.h>

namespace hymn {

Executor inline_executor() {
  return [](const std::function<void()>& task) { task(); };
}

namespace detail {

void throw_future_timeout(Timeout timeout) {
  const double seconds = std::chrono::duration<double>(timeout.duration()).count();
  throw TimeoutError(fmt::format("a future was not ready after {:.3f} s", seconds),
                     timeout.duration());
}

}  // namespace detail
}  // namespace hymn
