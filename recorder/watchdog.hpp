// What a process does about failures of its own accord: writes down what it knows, gives up what
// nobody waits for, or ends itself.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "recorder/dump_file.hpp"
#include "recorder/dump_pipe.hpp"
#include "recorder/monitor.hpp"

namespace hymn {

/// Why a dump is written: "trigger" in docs/flight-recorder.md.
struct Incident {
  std::string trigger;  ///< "timeout", "death", "error", "abort", "request", "pipe", "call" …
  std::string reason;
  bool asked_for = false;  ///< by somebody: every such dump is written
};

struct WatchdogOptions {
  int rank = 0;
  DumpPlace dumps{};
  OnFailure policy = OnFailure::clean_up;
  Timeout monitor_timeout = Timeout::none();
  const Clock* clock = &steady_clock();
};

/// What a watchdog can do; tests put their own here.
struct WatchdogActions {
  /// The text of a dump of this rank.
  std::function<std::string(const Incident&)> dump;
  std::function<void(std::string_view text)> warn;
  /// Lets what was posted to others go out.
  std::function<void()> flush;
  /// Ends the process; does not return but in tests.
  std::function<void()> abort_process;
};

/// One for each world. Thread-safe.
class Watchdog {
 public:
  Watchdog(WatchdogOptions options, WatchdogActions actions);

  /// Called several times a second by the thread that everything else relies on. From the first
  /// call on a monitor sees that it goes on.
  void beat();
  /// Writes the dump, if there is a place for dumps. What happens by itself leaves a dump that was
  /// made shortly before: it tells how it began. True when it was written.
  bool dump(const Incident& incident);
  /// Something has failed in which this rank takes part: dumps, and does what the policy says.
  void failure(const Incident& incident);
  /// By SIGABRT; does not return.
  void end_process(std::string_view last_words);
  OnFailure policy() const { return options_.policy; }
  /// This rank has done its part: no failure of others concerns it any more. It still dumps when
  /// it is asked to.
  void leave() { has_left_.store(true, std::memory_order_release); }
  /// The world ends: nothing is a failure any more, and the pipe is gone.
  void end();
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  void open_pipe();
  /// False, with a warning, where it cannot be done.
  bool write(const Incident& incident);
  void beat_has_stopped();

  WatchdogOptions options_;
  WatchdogActions actions_;
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<bool> has_left_{false};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // guards what follows; a dump is made under it
  TimePoint last_dump_{};
  bool has_dumped_ = false;
  std::unique_ptr<DumpPipe> pipe_;
  std::unique_ptr<Monitor> monitor_;
};

}  // namespace hymn
