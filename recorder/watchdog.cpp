#include "recorder/watchdog.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"
#include "recorder/dump_file.hpp"

namespace hymn {
namespace {

// For so long what fails is taken to follow from what has failed first.
constexpr Duration one_incident = std::chrono::seconds(10);

}  // namespace

Watchdog::Watchdog(WatchdogOptions options, WatchdogActions actions)
    : options_(std::move(options)), actions_(std::move(actions)) {}

void Watchdog::open_pipe() {
  if (options_.dumps.base.empty()) return;
  try {
    pipe_ = std::make_unique<DumpPipe>(options_.dumps.base, options_.rank);
  } catch (const Error& error) {
    actions_.warn(fmt::format("dumps cannot be requested through a pipe: {}", error.what()));
  }
}

void Watchdog::beat() {
  const bool first = beats_.fetch_add(1, std::memory_order_relaxed) == 0;
  bool asked = false;
  {
    std::lock_guard lock(mutex_);
    if (ended_.load(std::memory_order_relaxed)) return;
    if (first) {
      open_pipe();
      if (options_.monitor_timeout.is_set() && !options_.monitor_timeout.is_none())
        monitor_ = std::make_unique<Monitor>(
            options_.monitor_timeout.duration(),
            [this] { return beats_.load(std::memory_order_relaxed); },
            [this] { beat_has_stopped(); });
    }
    asked = pipe_ && pipe_->asked();
  }
  if (asked) dump({"pipe", "asked for through the pipe", true});
}

bool Watchdog::write(const Incident& incident) {
  try {
    write_dump(options_.dumps, options_.rank, actions_.dump(incident));
    return true;
  } catch (const std::exception& error) {
    actions_.warn(fmt::format("the dump could not be written: {}", error.what()));
    return false;
  }
}

bool Watchdog::dump(const Incident& incident) {
  if (options_.dumps.base.empty() || has_ended()) return false;
  if (has_left_.load(std::memory_order_acquire) && !incident.asked_for) return false;
  std::lock_guard lock(mutex_);
  const TimePoint now = options_.clock->now();
  if (has_dumped_ && !incident.asked_for && now - last_dump_ < one_incident) return false;
  if (!write(incident)) return false;
  has_dumped_ = true;
  last_dump_ = now;
  return true;
}

void Watchdog::failure(const Incident& incident) {
  if (has_ended() || has_left_.load(std::memory_order_acquire)) return;
  dump(incident);
  if (options_.policy != OnFailure::tear_down) return;
  end_process(fmt::format("HYMN_ON_FAILURE=tear_down: the process ends: {}", incident.reason));
}

void Watchdog::end_process(std::string_view last_words) {
  actions_.warn(last_words);
  {
    std::lock_guard lock(mutex_);
    pipe_.reset();
  }
  actions_.flush();
  actions_.abort_process();
}

// Whoever has hung may hold any lock: nothing is waited for here.
void Watchdog::beat_has_stopped() {
  const Incident incident{"watchdog", "hymn's watchdog thread has hung"};
  actions_.warn("hymn's watchdog thread has hung: the process ends");
  if (!options_.dumps.base.empty()) write(incident);
  actions_.abort_process();
}

void Watchdog::end() {
  ended_.store(true, std::memory_order_release);
  std::unique_ptr<Monitor> monitor;
  {
    std::lock_guard lock(mutex_);
    pipe_.reset();
    monitor = std::move(monitor_);
  }
}

}  // namespace hymn
