#include "runtime/rank/incidents.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "recorder/dump_file.hpp"
#include "recorder/flight_dump.hpp"
#include "recorder/recorder_clock.hpp"

namespace hymn::detail {

namespace {

// A dump that is not older than this at a rank's end is about that end.
constexpr Duration last_words = std::chrono::seconds(10);

std::int64_t wall_now() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void Incidents::start(std::function<void()> flush) {
  WatchdogActions actions;
  actions.dump = [this](const Incident& incident) {
    DumpRequest request = dump_request();
    request.trigger = incident.trigger;
    request.reason = incident.reason;
    recorder_.note_dump();
    return dump_json(recorder_.view(), request);
  };
  actions.warn = [this](std::string_view text) { logger_.warning(std::string(text)); };
  actions.flush = std::move(flush);
  actions.abort_process = [] { std::abort(); };
  watchdog_ = std::make_unique<Watchdog>(
      WatchdogOptions{.rank = settings_.rank,
                      .dumps = {settings_.config.dump, settings_.config.dump_format},
                      .policy = settings_.config.blocking_wait ? OnFailure::report
                                                               : settings_.config.on_failure,
                      // Threads that share one watchdog need not each watch it.
                      .monitor_timeout = settings_.in_one_process
                                             ? Timeout::none()
                                             : settings_.config.watchdog_timeout,
                      .clock = settings_.clock},
      std::move(actions));
}

void Incidents::report(const Incident& incident) {
  if (!watchdog_ || watchdog_->has_ended()) return;
  peers_.post(control::DumpNow{fmt::format("rank {}: {}", settings_.rank, incident.reason)});
  watchdog_->dump(incident);
}

void Incidents::group_failed(const GroupFailure& failure) {
  if (watchdog_) watchdog_->failure({"abort", failure.reason});
}

void Incidents::end_process(const std::string& reason) {
  if (!watchdog_) return;
  report({"timeout", reason});
  watchdog_->end_process(
      "the process ends, for MPI keeps the only thread that may call it (with "
      "MPI_THREAD_MULTIPLE it could go on, docs/threads.md): " +
      reason);
}

void Incidents::dump(const std::string& reason) {
  peers_.post(control::DumpNow{fmt::format("rank {}: {}", settings_.rank, reason), true});
  watchdog_->dump({"call", reason, true});
}

void Incidents::dump_asked(const control::DumpNow& message) {
  watchdog_->dump({"request", message.reason, message.asked_for});
}

// Of ranks of this host that can say nothing any more. The lowest that is left does it. What such a
// rank has written itself when it saw its end come tells more.
void Incidents::dump_for(const PeerNews& news, std::span<const RankPlace> here) {
  if (settings_.config.dump.empty()) return;
  const PeerRecorder* recorder = records_.recorder_of(news.rank);
  if (recorder == nullptr) return;
  for (const RankPlace& place : here)
    if (place.rank < settings_.rank && !hymn::is_gone(peers_.agent()->news_of(place.rank).state))
      return;
  remove_pipe_of(settings_.config.dump, news.rank);
  try {
    const RecorderView view = recorder->view();
    const std::int64_t dumped = view.header().dumped_steady_ns.load(std::memory_order_acquire);
    if (dumped != 0 && Duration(ClockReading::now().steady_ns - dumped) < last_words) return;
    DumpRequest request = dump_request();
    request.trigger = "death";
    request.reason = fmt::format("{}: {}", peers_.name_of(news.rank), news.detail);
    request.written_by = settings_.rank;
    write_dump({settings_.config.dump, settings_.config.dump_format}, news.rank,
               dump_json(view, request));
  } catch (const std::exception& error) {
    logger_.warning(fmt::format("no dump of {}: {}", peers_.name_of(news.rank), error.what()));
  }
}

DumpRequest Incidents::dump_request() const {
  DumpRequest request;
  request.groups = registry_.all();
  if (peers_.has_control()) {
    for (const PeerNews& news : peers_.agent()->all_news()) {
      const PeerDirectory::Person& person = peers_.person(news.rank);
      request.peers.push_back(
          {news.rank, std::string(to_string(news.state)), person.host, person.pid, news.detail});
    }
  }
  const char* outer = outer_call_.load(std::memory_order_acquire);
  if (outer != nullptr) request.in_call = {outer, outer_since_.load(std::memory_order_relaxed)};
  return request;
}

void Incidents::enter_outer_call(const char* name) {
  outer_since_.store(wall_now(), std::memory_order_relaxed);
  outer_call_.store(name, std::memory_order_release);
  recorder_.set_outer_call(name, outer_since_.load(std::memory_order_relaxed));
}

}  // namespace hymn::detail
