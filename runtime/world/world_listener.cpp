#include "runtime/world/world_listener.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "recorder/call_snapshot.hpp"
#include "recorder/last_call.hpp"
#include "recorder/rank_list.hpp"

namespace hymn::detail {
namespace {

/// The collective for which this rank meets the others now, before it is entered; 0: none.
std::uint64_t meeting_of(const GroupState& group) {
  const std::uint64_t last = group.record().met();
  return last > group.record().collective_sequence() && !group.health().is_aborted() ? last : 0;
}

}  // namespace

void WorldListener::peer_changed(const PeerNews& news) {
  groups_.visit_until([&news](GroupState& group) {
    group.health().member_changed(news);
    return false;
  });
  if (!hymn::has_failed(news.state)) return;
  const std::string text = world_.peers.describe_end(news);
  world_.logger.warning(text);
  world_.life.mark_failed();
  // Everybody hears of it: nobody need be told.
  world_.incidents.watchdog()->dump({"death", text});
  world_.incidents.dump_for(news, job_.places);
}

void WorldListener::group_aborted(const control::AbortGroup& message) {
  const GroupFailure failure{message.reason, message.missing};
  world_.incidents.watchdog()->dump({"abort", message.reason});
  if (groups_.abort(message.uid, failure)) world_.incidents.group_failed(failure);
}

void WorldListener::dump_asked(const control::DumpNow& message) {
  world_.incidents.dump_asked(message);
}

ProgressReport WorldListener::tell(const Inquiry& about) {
  ProgressReport report{
      .rank = world_.rank(),
      .shrinks = world_.peers.has_control() && world_.peers.agent()->is_shrinking(about.uid)};
  report.waits = about.sequence != 0 && waits_.will_tell(about.uid, about.sequence);
  const FrameSource own;
  const RecorderView view = world_.recorder.view();
  world_.inquiry.add_calls(report, view, about, about.sites ? &own : nullptr);
  // It may be for that reason that it does not come.
  for (const int culprit : world_.failures.seen().missing)
    if (culprit != world_.rank())
      report.remark += fmt::format("; it has seen a failure of {}", world_.peers.name_of(culprit));
  report.doing += report.remark;
  report.makes = is_making(view, about.uid);
  report.awaited = own_wait();
  const ProgressEngine* engine = world_.watched_engine.load(std::memory_order_acquire);
  report.undriven =
      engine != nullptr && about.sequence != 0 && engine->is_undriven(about.uid, about.sequence);
  if (const auto mark = world_.registry.mark(about.uid)) {
    report.knows_group = true;
    report.entered = mark->entered;
    report.completed = mark->completed;
  }
  groups_.visit(about.uid, [&](const GroupState& group) {
    report.entered = std::max(report.entered, group.record().met());
  });
  return report;
}

// Others see only which calls have not ended; not which of them a thread waits in.
OwnWait WorldListener::own_wait() const {
  // Who meets the others before a collective has not entered it yet.
  std::optional<OwnWait> meeting;
  groups_.visit_until([&meeting](const GroupState& group) {
    const std::uint64_t sequence = meeting_of(group);
    if (sequence == 0) return false;
    meeting = {.uid = group.members().membership().uid,
               .sequence = sequence,
               .ranks = pack_ranks(group.members().membership().ranks)};
    return true;
  });
  if (meeting) return *meeting;
  const RecorderView view = world_.recorder.view();
  const std::vector<CallRecord> waited = waited_calls(view);
  if (!waited.empty()) return awaited_in(view, waited.back());
  if (const auto making = unended_making(view)) return awaited_in(view, *making);
  const auto last = unended_call(view);
  if (last && last->state == CallState::failed) return awaited_in(view, *last);
  const ProgressEngine* const engine = world_.watched_engine.load(std::memory_order_acquire);
  const auto tested =
      engine == nullptr || engine->has_own_thread() ? std::nullopt : tested_call(view);
  if (!tested) return {};
  OwnWait awaited = awaited_in(view, *tested);
  awaited.tests = true;
  return awaited;
}

CallProgress WorldListener::tell_calls(std::uint64_t uid, std::uint64_t sequence) {
  CallProgress report;
  groups_.visit(uid, [&](const GroupState& group) {
    if (group.members().is_member())
      report = report_of(look_at_calls(group.record().line(), world_.ring(), uid, sequence));
  });
  return report;
}

std::vector<GroupMark> WorldListener::marks() { return world_.registry.marks(); }

}  // namespace hymn::detail
