#include "base/endless_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <thread>

#include "base/helper_thread.hpp"

namespace hymn {
namespace {

// How long a thread that waits for the call sleeps before it looks at its deadline again.
constexpr auto longest_nap = std::chrono::milliseconds(10);

}  // namespace

std::vector<int> hopeless_among(const std::vector<int>& needed, const Patience& patience) {
  std::vector<int> hopeless;
  if (patience.is_hopeless)
    std::copy_if(needed.begin(), needed.end(), std::back_inserter(hopeless), patience.is_hopeless);
  return hopeless;
}

// By reference, for the reason that is told in meeting.cpp.
void throw_left(const Patience& patience, const std::vector<int>& hopeless, Duration waited) {
  ErrorContext context = patience.context;
  const std::string whom =
      hopeless.empty() ? "" : fmt::format(", in vain: rank(s) {}", fmt::join(hopeless, ", "));
  context.missing = hopeless;
  if (context.remedy.empty())
    context.remedy = "check that all of its ranks are alive and make the same calls";
  throw TimeoutError(fmt::format("{}: waited {:.3f} s{}", patience.purpose,
                                 std::chrono::duration<double>(waited).count(), whom),
                     waited, std::move(context));
}

void finish_or_leave(std::function<void()> call, const std::vector<int>& needed,
                     const Patience& patience) {
  const TimePoint started = patience.clock->now();
  std::packaged_task<void()> task(std::move(call));
  std::future<void> returned = task.get_future();
  std::thread thread([task = std::move(task)]() mutable {
    become_helper_thread("hymn-call");
    task();
  });
  while (returned.wait_for(longest_nap) != std::future_status::ready) {
    const std::vector<int> hopeless = hopeless_among(needed, patience);
    const TimePoint now = patience.clock->now();
    if (hopeless.empty() && !patience.deadline.expired(now)) continue;
    // It may have returned just before.
    if (returned.wait_for(longest_nap) == std::future_status::ready) break;
    thread.detach();
    throw_left(patience, hopeless, now - started);
  }
  thread.join();
  returned.get();
}

}  // namespace hymn
