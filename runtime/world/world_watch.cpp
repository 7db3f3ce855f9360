// What a world's watchdog sees, and what it can do.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

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

// Operations whose limit has passed while nobody moves them forward. Where a member is missing the
// group is given up. What all have entered may just not have been looked at: whoever waits for it
// next finds it done, or comes to a limit of their own.
void WorldState::look_after_works() {
  ProgressEngine* const engine = watched_engine_.load(std::memory_order_acquire);
  if (engine == nullptr) return;
  engine->look_what_is_driven(clock_->now());
  if (watchdog_->policy() == OnFailure::report) return;
  if (overdue_.empty())
    for (const ProgressEngine::Overdue& work : engine->take_overdue(clock_->now()))
      overdue_.push_back(ask_about(work));
  std::erase_if(overdue_, [this](OverdueAsked& asked) { return look_after(asked); });
}

WorldState::OverdueAsked WorldState::ask_about(const ProgressEngine::Overdue& work) {
  OverdueAsked asked{.work = work};
  std::vector<int> ranks;
  with_group(work.uid, [&](const GroupState& group) {
    std::tie(asked.about, ranks) = group.whom_to_ask(work.op);
  });
  // Outside of the lock: ranks that are threads answer within the call.
  if (agent_ && !ranks.empty()) asked.question = agent_->begin_asking(asked.about, ranks);
  return asked;
}

bool WorldState::look_after(OverdueAsked& asked) {
  std::vector<ProgressReport> reports;
  if (asked.question) {
    if (!agent_->is_answered(*asked.question) && ++asked.beats < longest_answer) return false;
    reports = end_asking(*asked.question, asked.about);
  }
  const bool collective = is_collective(asked.work.op.type);
  // Who has not been heard of may have come, or not.
  bool is_sound = false;
  with_group(asked.work.uid, [&](const GroupState& group) { is_sound = !group.is_aborted(); });
  if (!is_sound) return true;
  if (collective && std::ranges::any_of(reports, &ProgressReport::cut_off))
    watched_engine_.load(std::memory_order_acquire)->tell_overdue_again(asked.work.uid);
  // Looked up here, places are known at once under the lock.
  find_sites(reports, asked.about, Duration::zero());
  MissingRanks missing;
  with_group(asked.work.uid,
             [&](const GroupState& group) { missing = group.missing_of(asked.work.op, reports); });
  const bool is_missed = collective && !missing.ranks.empty() && !missing.undriven;
  const bool may_be_done = asked.work.on_host && asked.question.has_value();
  if (may_be_done && !is_missed) return true;
  // What all have entered is left alone where somebody is missing in a later one.
  std::uint64_t first = may_be_done ? asked.work.op.sequence : 0;
  for (const ProgressReport& report : missing.reports) first = std::min(first, report.entered + 1);
  give_up_overdue(asked, first, std::move(reports));
  return true;
}

void WorldState::give_up_overdue(const OverdueAsked& asked, std::uint64_t first,
                                 std::vector<ProgressReport> reports) {
  // It may have ended since the others were asked, or somebody waits for it now.
  const auto overdue = watched_engine_.load(std::memory_order_acquire)
                           ->still_overdue(asked.work, first, clock_->now());
  if (!overdue) return;
  const ProgressEngine::Overdue& work = *overdue;
  // What they told of their calls is of the newest.
  if (work.op.sequence != asked.work.op.sequence)
    for (ProgressReport& report : reports) report.signature = 0;
  MissingRanks missing;
  with_group(work.uid, [&](const GroupState& group) {
    missing = group.missing_of(work.op, std::move(reports));
  });
  const GroupState::Failure failure{
      fmt::format("rank {}: {} #{} has not completed within its limit, and nobody waits for it{}{}",
                  rank_, to_string(work.op.type), work.op.sequence,
                  missing.words.empty() ? "" : "; ", missing.words),
      std::move(missing.ranks)};
  bool found = false;
  {
    std::lock_guard lock(known_mutex_);
    visit_known(work.uid, [&](GroupState& group) {
      if (group.is_aborted()) return;
      group.abort_here(failure);
      found = true;
    });
  }
  if (!found) return;
  logger_.warning(failure.reason);
  incident({"timeout", failure.reason});
  announce_abort(work.uid, failure);
  group_failed(failure);
}

void WorldState::beat() {
  watchdog_->beat();
  look_after_works();
  look_after_waits();
  if (metrics_file_) metrics_file_->tick(clock_->now());
}

}  // namespace hymn::detail
