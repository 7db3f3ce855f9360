// What a world says by itself of calls that its threads wait in for long.
//
// All this happens on the thread that beats, beside the threads that wait: their loops know nothing
// of it. What they wait in is told by the flight recorder.
#include <algorithm>
#include <tuple>
#include <utility>

#include "recorder/last_call.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {
namespace {

// Who is there answers at once, unless the places in its program have to be looked up first.
constexpr int longest_answer = 6;  // beats
// While calls come and go, only another thread can be in one for long: it is looked for less often.
constexpr unsigned beats_between_looks = 8;

}  // namespace

std::vector<CallRecord> WorldState::waited_calls() const {
  std::vector<CallRecord> open = open_calls(recorder_.view());
  const ProgressEngine* engine = watched_engine_.load(std::memory_order_acquire);
  if (engine == nullptr || open.empty()) return {};
  const std::vector<std::uint64_t> others = engine->records_not_waited_for();
  std::erase_if(open, [&](const CallRecord& call) {
    return std::ranges::find(others, call.record_id) != others.end();
  });
  return open;
}

void WorldState::look_after_waits() {
  if (!wait_reports_.is_on() || !agent_) return;
  const std::uint64_t calls = ring().next_id();
  const bool is_moving = std::exchange(calls_seen_, calls) != calls;
  if (is_moving && ++beats_ % beats_between_looks != 0) return;
  for (const CallRecord& call : wait_reports_.grown_long(waited_calls(), clock_->now()))
    ask_about(call);
  std::erase_if(long_waits_, [this](LongWait& wait) {
    const std::optional<Duration> waited = wait_reports_.waited(wait.call);
    if (waited && !agent_->is_answered(wait.question) && ++wait.beats < longest_answer)
      return false;
    auto tales = end_asking(wait.question, wait.about);
    if (waited) report(wait, std::move(tales), *waited);
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
  LongWait wait;
  wait.call = call;
  const bool is_known = with_group(call.group_uid, [&](const GroupState& group) {
    std::tie(wait.about, wait.ranks) = group.whom_to_ask(call);
  });
  if (!is_known || wait.ranks.empty()) return;
  // Outside of the lock: ranks that are threads answer within the call.
  wait.question = agent_->begin_asking(wait.about, wait.ranks);
  long_waits_.push_back(std::move(wait));
}

// One line for a job: of those that wait alike, who comes first says it.
void WorldState::report(const LongWait& wait, std::vector<Tale> tales, Duration waited) const {
  const bool is_told_by_another = std::ranges::any_of(
      tales, [this](const Tale& tale) { return tale.waits && tale.rank < rank_; });
  // Looked up here, places are known at once under the lock.
  find_sites(tales, wait.about, Duration::zero());
  site_text(wait.call.site);
  with_group(wait.call.group_uid, [&](const GroupState& group) {
    const std::string text = group.wait_report(wait.call, std::move(tales), waited);
    if (is_told_by_another)
      logger_.info(text);
    else
      logger_.warning(text);
  });
}

}  // namespace hymn::detail
