// What a world says by itself of calls that its threads wait in for long.
//
// Of calls this happens on the thread that beats, beside the threads that wait: their loops know
// nothing of it. What they wait in is told by the flight recorder.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "recorder/last_call.hpp"
#include "runtime/group/some_names.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {
namespace {

// While calls come and go, only another thread can be in one for long: it is looked for less often.
constexpr unsigned beats_between_polls = 8;

}  // namespace

std::vector<CallRecord> WorldState::waited_calls() const {
  std::vector<CallRecord> open = open_calls(recorder_.view());
  std::erase_if(open, [](const CallRecord& call) { return !call.waited_for; });
  return open;
}

void WorldState::look_after_waits() {
  if (!wait_reports_.is_on() || !agent_) return;
  const std::uint64_t calls = ring().next_id();
  const bool is_moving = std::exchange(calls_seen_, calls) != calls;
  if (is_moving && ++beats_ % beats_between_polls != 0) return;
  for (const CallRecord& call : wait_reports_.grown_long(waited_calls(), clock_->now()))
    ask_about(call);
  std::erase_if(long_waits_, [this](WaitAsked& wait) {
    const std::optional<Duration> waited = wait_reports_.waited(wait.call);
    if (waited && !agent_->is_answered(wait.question) && ++wait.beats < longest_answer)
      return false;
    auto reports = end_asking(wait.question, wait.about);
    if (waited) report(wait, std::move(reports), *waited);
    return true;
  });
}

bool WorldState::with_group(std::uint64_t uid,
                            const std::function<void(const GroupState&)>& use) const {
  std::lock_guard lock(known_mutex_);
  bool is_known = false;
  visit_known(uid, [&](const GroupState& group) {
    if (is_known || !group.is_member()) return;
    is_known = true;
    use(group);
  });
  return is_known;
}

void WorldState::ask_about(const CallRecord& call) {
  WaitAsked wait;
  wait.call = call;
  const bool is_known = with_group(call.group_uid, [&](const GroupState& group) {
    std::tie(wait.about, wait.ranks) = group.whom_to_ask(group.pending_in(call));
  });
  if (!is_known || wait.ranks.empty()) return;
  // Outside of the lock: ranks that are threads answer within the call.
  wait.question = agent_->begin_asking(wait.about, wait.ranks);
  long_waits_.push_back(std::move(wait));
}

// One line for a job: of those that wait alike, who comes first says it.
void WorldState::report(const WaitAsked& wait, std::vector<ProgressReport> reports,
                        Duration waited) const {
  const bool is_told_by_another = std::ranges::any_of(
      reports,
      [this](const ProgressReport& report) { return report.waits && report.rank < rank_; });
  // Looked up here, places are known at once under the lock.
  find_sites(reports, wait.about, Duration::zero());
  site_text(wait.call.site);
  with_group(wait.call.group_uid, [&](const GroupState& group) {
    const std::string text = group.wait_report(wait.call, std::move(reports), waited);
    logger_.warning(text, is_told_by_another);
  });
}

std::shared_ptr<LongWait> WorldState::long_wait(const std::string& purpose) const {
  if (config_.wait_report.is_none()) return nullptr;
  return std::make_shared<LongWait>(
      config_.wait_report, *clock_,
      [this, purpose](std::span<const int> missing, Duration waited, bool quietly) {
        std::vector<int> others(missing.begin(), missing.end());
        std::erase(others, rank_);
        std::vector<ProgressReport> reports = ask({}, others, control::longest_question);
        // Without a control plane more may still be seen.
        if (!agent_)
          for (const int rank : others) reports.push_back({.rank = rank, .doing = tell_of(rank)});
        report_waiting(purpose, std::move(reports), waited, quietly);
      });
}

std::shared_ptr<LongWait> WorldState::long_wait_in_shrink(std::string purpose, std::uint64_t uid,
                                                          std::vector<int> ranks) const {
  if (config_.wait_report.is_none()) return nullptr;
  return std::make_shared<LongWait>(
      config_.wait_report, *clock_,
      [this, uid, purpose = std::move(purpose), ranks = std::move(ranks)](std::span<const int>,
                                                                          Duration waited, bool) {
        std::vector<ProgressReport> reports = ask(uid, ranks, control::longest_question);
        const bool quietly = std::ranges::any_of(reports, [this](const ProgressReport& report) {
          return report.shrinks && report.rank < rank_;
        });
        std::erase_if(reports, [this](const ProgressReport& report) {
          return report.rank == rank_ || report.shrinks || hymn::is_gone(report.state);
        });
        report_waiting(purpose, std::move(reports), waited, quietly);
      });
}

std::string WorldState::tell_absent(std::span<const ProgressReport> reports) const {
  std::vector<std::string> names;
  for (const ProgressReport& report : reports) {
    const std::string end = tell_of(report.rank);
    std::string_view doing = report.doing;
    if (!end.empty() && doing.starts_with(stopped_words)) doing.remove_prefix(stopped_words.size());
    if (!end.empty() && end.find(doing) != std::string::npos) doing = {};
    names.push_back(fmt::format("{}{}{}",
                                end.empty() ? name_of(report.rank) + " has not arrived" : end,
                                doing.empty() ? ""
                                : end.empty() ? ": "
                                              : "; ",
                                doing));
  }
  return some_of(std::move(names));
}

void WorldState::report_waiting(const std::string& purpose, std::vector<ProgressReport> missing,
                                Duration waited, bool quietly) const {
  const std::string whom = missing.empty() ? "" : "; missing: " + tell_absent(missing);
  const std::string text =
      fmt::format("{} has waited {:.1f} s on rank {}{}; `hymn trace --live {}` tells more", purpose,
                  std::chrono::duration<double>(waited).count(), rank_, whom, getpid());
  logger_.warning(text, quietly);
}

}  // namespace hymn::detail
