#include "runtime/world/long_waits.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "recorder/last_call.hpp"

namespace hymn::detail {
namespace {

// While calls come and go, only another thread can be in one for long: it is looked for less often.
constexpr unsigned beats_between_polls = 8;

}  // namespace

std::vector<CallRecord> waited_calls(const RecorderView& view) {
  std::vector<CallRecord> open = open_calls(view);
  std::erase_if(open, [](const CallRecord& call) { return !call.waited_for; });
  return open;
}

void LongWaits::look() {
  if (!reports_.is_on() || !world_.peers.has_control()) return;
  const std::uint64_t calls = world_.ring().next_id();
  const bool is_moving = std::exchange(calls_seen_, calls) != calls;
  if (is_moving && ++beats_ % beats_between_polls != 0) return;
  for (const CallRecord& call :
       reports_.grown_long(waited_calls(world_.recorder.view()), world_.clock().now()))
    ask_about(call);
  std::erase_if(asked_, [this](Asked& wait) {
    const std::optional<Duration> waited = reports_.waited(wait.call);
    if (waited && !world_.peers.agent()->is_answered(wait.question) &&
        ++wait.beats < PeerInquiry::longest_answer)
      return false;
    auto reports = world_.inquiry.end_asking(wait.question, wait.about);
    if (waited) report(wait, std::move(reports), *waited);
    return true;
  });
}

void LongWaits::ask_about(const CallRecord& call) {
  Asked wait;
  wait.call = call;
  const bool is_known = groups_.with(call.group_uid, [&](const GroupState& group) {
    std::tie(wait.about, wait.ranks) =
        group.inquiry().whom_to_ask(group.inquiry().pending_in(call));
  });
  if (!is_known || wait.ranks.empty()) return;
  // Outside of the lock: ranks that are threads answer within the call.
  wait.question = world_.peers.agent()->begin_asking(wait.about, wait.ranks);
  asked_.push_back(std::move(wait));
}

// One line for a job: of those that wait alike, who comes first says it.
void LongWaits::report(const Asked& wait, std::vector<ProgressReport> reports,
                       Duration waited) const {
  const bool is_told_by_another = std::ranges::any_of(
      reports,
      [this](const ProgressReport& report) { return report.waits && report.rank < world_.rank(); });
  // Looked up here, places are known at once under the lock.
  world_.inquiry.find_sites(reports, wait.about, Duration::zero());
  site_text(wait.call.site);
  groups_.with(wait.call.group_uid, [&](const GroupState& group) {
    const std::string text = group.inquiry().wait_report(wait.call, std::move(reports), waited);
    world_.logger.warning(text, is_told_by_another);
  });
}

}  // namespace hymn::detail
