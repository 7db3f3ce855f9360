#include "base/endless_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <thread>

#include "base/helper_thread.hpp"

namespace hymn {
namespace {

constexpr auto last_moment = std::chrono::milliseconds(100);

/// A call that both who waits for it and the thread that makes it know of.
struct Call {
  std::mutex mutex;
  std::condition_variable changed;
  bool returned = false;
  std::exception_ptr error;
};

void make(Call& state, const std::function<void()>& call) {
  std::exception_ptr error;
  try {
    call();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(state.mutex);
  state.error = std::move(error);
  state.returned = true;
  state.changed.notify_all();
}

// Who has gone may have done its part before, so that the call is about to return.
bool returns_at_last(Call& state) {
  std::unique_lock lock(state.mutex);
  return state.changed.wait_for(lock, last_moment, [&] { return state.returned; });
}

/// True: it has returned.
bool has_ended(Call& state, PatientWait& wait) {
  {
    std::unique_lock lock(state.mutex);
    if (wait.until(lock, state.changed, [&] { return state.returned; })) return true;
  }
  return !wait.hopeless().empty() && returns_at_last(state);
}

/// Leaves the thread alone, however the scope ends, unless it is joined before.
struct LeftBehind {
  ~LeftBehind() {
    if (thread.joinable()) thread.detach();
  }
  std::thread thread;
};

}  // namespace

// By reference, for the reason that is told in meeting.cpp.
void throw_left(const Patience& patience, const PatientWait& wait) {
  const Duration waited = wait.waited();
  ErrorContext context = patience.context;
  const std::vector<int>& hopeless = wait.hopeless();
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
  const auto state = std::make_shared<Call>();
  LeftBehind left{start_helper_thread(
      "hymn-call", [state, call = std::move(call)] { make(*state, call); },
      [](std::string_view) {})};
  PatientWait wait(patience, needed);
  if (!has_ended(*state, wait)) throw_left(patience, wait);
  left.thread.join();
  if (state->error) std::rethrow_exception(state->error);
}

void finish_or_give_up(const std::function<void()>& call, const std::vector<int>& needed,
                       const Patience& patience, const std::function<void(const Error&)>& give_up) {
  Call state;
  Patience of_watcher = patience;
  of_watcher.meanwhile = nullptr;  // what it moves belongs to the calling thread
  const auto watch = [&] {
    PatientWait wait(of_watcher, needed);
    try {
      if (!has_ended(state, wait)) throw_left(of_watcher, wait);
    } catch (const Error& error) {
      if (!returns_at_last(state)) give_up(error);
    }
  };
  std::thread watcher = start_helper_thread("hymn-watch", watch, [](std::string_view) {});
  make(state, call);
  watcher.join();
  if (state.error) std::rethrow_exception(state.error);
}

}  // namespace hymn
