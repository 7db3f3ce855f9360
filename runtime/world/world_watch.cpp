// What a world's watchdog sees, and what it can do.

#include <fmt/format.h>

#include <cstdlib>

#include "recorder/dump_file.hpp"
#include "recorder/flight_dump.hpp"
#include "recorder/recorder_clock.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {
namespace {

// A dump that is not older than this at a rank's end is about that end.
constexpr Duration last_words = std::chrono::seconds(10);

std::int64_t wall_now() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void WorldState::make_watchdog() {
  WatchdogActions actions;
  actions.dump = [this](const Incident& incident) {
    DumpRequest request = dump_request();
    request.trigger = incident.trigger;
    request.reason = incident.reason;
    recorder_.note_dump();
    return dump_json(recorder_.view(), request);
  };
  actions.warn = [this](std::string_view text) { logger_.warning(std::string(text)); };
  actions.flush = [this] {
    if (agent_) control_->flush();
  };
  actions.abort_process = [] { std::abort(); };
  watchdog_ = std::make_unique<Watchdog>(
      WatchdogOptions{
          .rank = rank_,
          .dump_base = config_.dump,
          .policy = config_.blocking_wait ? OnFailure::report : config_.on_failure,
          // Threads that share one watchdog need not each watch it.
          .monitor_timeout = in_one_process_ ? Timeout::none() : config_.watchdog_timeout,
          .clock = clock_},
      std::move(actions));
}

void WorldState::incident(const Incident& incident) {
  if (!watchdog_ || watchdog_->has_ended()) return;
  if (agent_) agent_->post(control::DumpNow{fmt::format("rank {}: {}", rank_, incident.reason)});
  watchdog_->dump(incident);
}

void WorldState::group_failed(const GroupState::Failure& failure) {
  if (watchdog_) watchdog_->failure({"abort", failure.reason});
}

void WorldState::dump(const std::string& reason) {
  require_here({.rank = rank_, .operation = "dump"});
  if (agent_) agent_->post(control::DumpNow{fmt::format("rank {}: {}", rank_, reason), true});
  watchdog_->dump({"call", reason, true});
}

void WorldState::dump_asked(const control::DumpNow& message) {
  watchdog_->dump({"request", message.reason, message.asked_for});
}

// Of ranks of this host that can say nothing any more. The lowest that is left does it. What such a
// rank has written itself when it saw its end come tells more.
void WorldState::dump_for(const PeerNews& news) {
  if (config_.dump.empty() || !control_) return;
  const PeerRecorder* recorder = control_->recorder_of(news.rank);
  if (recorder == nullptr) return;
  for (const RankPlace& place : job_.places)
    if (place.rank < rank_ && !hymn::is_gone(agent_->news_of(place.rank).state)) return;
  remove_pipe_of(config_.dump, news.rank);
  try {
    const RecorderView view = recorder->view();
    const std::int64_t dumped = view.header().dumped_steady_ns.load(std::memory_order_acquire);
    if (dumped != 0 && Duration(ClockReading::now().steady_ns - dumped) < last_words) return;
    DumpRequest request = dump_request();
    request.trigger = "death";
    request.reason = fmt::format("{}: {}", name_of(news.rank), news.detail);
    request.written_by = rank_;
    write_dump(dump_path(config_.dump, news.rank), dump_json(view, request));
  } catch (const std::exception& error) {
    logger_.warning(fmt::format("no dump of {}: {}", name_of(news.rank), error.what()));
  }
}

DumpRequest WorldState::dump_request() const {
  DumpRequest request;
  request.groups = registry_.all();
  if (agent_) {
    for (const PeerNews& news : agent_->all_news()) {
      const Person& person = persons_[static_cast<std::size_t>(news.rank)];
      request.peers.push_back(
          {news.rank, std::string(to_string(news.state)), person.host, person.pid, news.detail});
    }
  }
  const char* outer = outer_call_.load(std::memory_order_acquire);
  if (outer != nullptr) request.in_call = {outer, outer_since_.load(std::memory_order_relaxed)};
  return request;
}

void WorldState::enter_outer_call(const char* name) {
  outer_since_.store(wall_now(), std::memory_order_relaxed);
  outer_call_.store(name, std::memory_order_release);
  recorder_.set_outer_call(name, outer_since_.load(std::memory_order_relaxed));
}

// Operations whose limit has passed while nobody moves them forward.
void WorldState::look_after_works() {
  const ProgressEngine* engine = watched_engine_.load(std::memory_order_acquire);
  if (engine == nullptr || watchdog_->policy() == OnFailure::report) return;
  for (const ProgressEngine::Overdue& overdue : engine->overdue(clock_->now())) {
    const GroupState::Failure failure{
        fmt::format("rank {}: {} #{} has not completed within its limit, and nobody waits for it",
                    rank_, to_string(overdue.type), overdue.sequence)};
    bool found = false;
    {
      std::lock_guard lock(known_mutex_);
      visit_known(overdue.uid, [&](GroupState& group) {
        if (group.is_aborted()) return;
        group.abort_here(failure);
        found = true;
      });
    }
    if (!found) continue;
    logger_.warning(failure.reason);
    incident({"timeout", failure.reason});
    announce_abort(overdue.uid, failure);
    group_failed(failure);
  }
}

void WorldState::beat() {
  watchdog_->beat();
  look_after_works();
  look_after_waits();
  if (metrics_file_) metrics_file_->tick(clock_->now());
}

}  // namespace hymn::detail
