// What a world asks of its ranks about where they are, and tells of its own.
#include <fmt/format.h>

#include "base/company_watch.hpp"
#include "control/process_watch.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/call_glimpse.hpp"
#include "recorder/last_call.hpp"
#include "recorder/rank_list.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {

std::vector<Tale> WorldState::ask(const Inquiry& about, std::span<const int> ranks,
                                  Duration limit) const {
  if (!agent_) return {};
  auto tales = agent_->ask(about, ranks, limit);
  look_at_silent(tales, about);
  return tales;
}

std::vector<Tale> WorldState::end_asking(std::uint64_t question, const Inquiry& about) const {
  auto tales = agent_->end_asking(question);
  look_at_silent(tales, about);
  return tales;
}

// Of a rank on this host that says nothing there is still its memory.
void WorldState::look_at_silent(std::vector<Tale>& tales, const Inquiry& about) const {
  for (Tale& tale : tales) {
    if (is_gone(tale.state)) tale.doing += tell_culprits(agent_->news_of(tale.rank), tale.doing);
    const PeerRecorder* const recorder = tale.answered ? nullptr : control_->recorder_of(tale.rank);
    if (recorder == nullptr) continue;
    const RecorderView view = recorder->view();
    for (const GroupLineSeen& line : view.groups()) {
      if (line.uid != about.uid) continue;
      tale.knows_group = true;
      tale.entered = line.collectives;
      tale.completed = line.completed;
    }
    if (tale.state == PeerState::left) add_given_up(tale, about, view);
    if (is_gone(tale.state)) continue;
    tale.stopped = is_stopped(persons_[static_cast<std::size_t>(tale.rank)].pid);
    add_calls(tale, view, about, nullptr);
    const auto making = unended_making(view);
    tale.makes = making && making->uid == about.uid;
    const auto meets = view.making();
    tale.shrinks = meets && meets->kind == MakingKind::shrink && meets->uid == about.uid;
    if (const auto call = unended_call(view))
      tale.awaited = awaited_in(view, *call);
    else if (making)
      tale.awaited = awaited_in(view, *making);
    // It may be that only the keeper of the desk is stopped, and no answer gets through.
    tale.answered = !tale.stopped;
  }
}

// At a limit all of a circle give up at about the same time: who is the first to leave has waited,
// too. So has who was the first to give up a group that was being made.
void WorldState::add_given_up(Tale& tale, const Inquiry& about, const RecorderView& view) const {
  const auto making = unended_making(view);
  tale.makes = making && making->uid == about.uid;
  const auto call = unended_call(view);
  if (!call || call->state != CallState::failed) return;
  tale.awaited = hymn::awaited_in(view, *call);
  tale.doing += tale.doing.empty() ? "" : "; ";
  tale.doing +=
      describe_last_call(view, {[this](std::uint64_t uid) { return registry_.label(uid); }});
}

void WorldState::add_calls(Tale& tale, const RecorderView& view, const Inquiry& about,
                           const FrameSource* sites) const {
  tale.doing = tale.stopped ? stopped_words : "";
  tale.doing +=
      describe_last_call(view, {[this](std::uint64_t uid) { return registry_.label(uid); }, sites});
  const auto call = about.sequence == 0 ? std::nullopt : find_call(view, about.uid, about.sequence);
  if (!call) return;
  tale.call = describe_call(*call);
  tale.signature = signature_of(*call);
  if (sites != nullptr) tale.site = site_text(call->site, *sites);
}

FrameSource WorldState::sites_of(int rank, const RecorderView& view) const {
  const Person& person = persons_[static_cast<std::size_t>(rank)];
  return in_one_process_ ? FrameSource() : source_of(view, person.in_sight ? person.pid : 0);
}

std::string WorldState::site_of(int rank, std::uint64_t site) const {
  if (rank == rank_) return site_text(site);
  const std::optional<RecorderView> view = records_of(rank);
  return view ? site_text(site, sites_of(rank, *view)) : "";
}

void WorldState::find_sites(std::span<Tale> tales, Inquiry about, Duration limit) const {
  about.sites = true;
  std::vector<int> elsewhere;
  for (Tale& tale : tales) {
    const std::optional<RecorderView> view = records_of(tale.rank);
    if (!view) {
      if (tale.answered) elsewhere.push_back(tale.rank);
      continue;
    }
    if (is_gone(tale.state)) continue;
    const FrameSource sites = sites_of(tale.rank, *view);
    add_calls(tale, *view, about, &sites);
    tale.doing += tale.remark;
  }
  if (elsewhere.empty() || !agent_ || limit == Duration::zero()) return;
  for (const Tale& closer : agent_->ask(about, elsewhere, limit)) {
    const auto told = std::ranges::find(tales, closer.rank, &Tale::rank);
    if (closer.answered && told != tales.end()) *told = closer;
  }
}

void WorldState::follow_waits(MissingRanks& missing, Duration waited, Duration patience) const {
  const TimePoint began = steady_clock().now();
  const auto elapsed = [began] { return steady_clock().now() - began; };
  const auto ask = [&](const Inquiry& about, std::span<const int> ranks) {
    return this->ask(about, ranks, std::max(patience - elapsed(), Duration::zero()));
  };
  WaitChains chains(rank_, waited, ask, elapsed);
  detail::follow_waits(missing, chains, [this](int rank) { return name_of(rank); });
}

TimeoutError WorldState::with_missing(const TimeoutError& error, const Membership& group) const {
  std::vector<int> others = group.ranks;
  std::erase(others, rank_);
  MissingRanks missing;
  missing.tales = ask(group.uid, others, control::longest_question);
  std::erase_if(missing.tales, [](const Tale& tale) { return tale.makes || tale.knows_group; });
  if (missing.tales.empty()) return with_known(error, company(group.ranks));
  for (const Tale& tale : missing.tales) missing.ranks.push_back(tale.rank);
  std::vector<int> idle;
  for (const Tale& tale : missing.tales)
    if (tale.answered && tale.awaited.ranks.empty()) idle.push_back(tale.rank);
  missing.words = tell_absent(missing.tales);
  follow_waits(missing, error.waited(), control::longest_question);
  ErrorContext where = error.context();
  where.missing = std::move(missing.ranks);
  const TimeoutError told(fmt::format("{}; missing: {}", error.problem(), missing.words),
                          error.waited(), std::move(where));
  // Where one of them is stopped, it may hold up the others of them.
  return with_known(told, company(told.context().missing), idle);
}

// Others see only which calls have not ended; not which of them a thread waits in.
OwnWait WorldState::own_wait() const {
  {
    // Who meets the others before a collective has not entered it yet.
    const std::lock_guard lock(known_mutex_);
    for (const auto& [key, group] : known_groups_)
      if (group->compared() != 0 && !group->is_aborted())
        return {.uid = key.first,
                .sequence = group->compared(),
                .ranks = pack_ranks(group->membership().ranks)};
  }
  const RecorderView view = recorder_.view();
  const std::vector<CallRecord> waited = waited_calls();
  if (!waited.empty()) return awaited_in(view, waited.back());
  if (const auto making = unended_making(view)) return awaited_in(view, *making);
  const auto last = unended_call(view);
  if (last && last->state == CallState::failed) return awaited_in(view, *last);
  const ProgressEngine* const engine = watched_engine_.load(std::memory_order_acquire);
  const auto tested =
      engine == nullptr || engine->has_own_thread() ? std::nullopt : tested_call(view);
  if (!tested) return {};
  OwnWait awaited = awaited_in(view, *tested);
  awaited.tests = true;
  return awaited;
}

Tale WorldState::tell(const Inquiry& about) {
  Tale tale{.rank = rank_, .shrinks = agent_ && agent_->is_shrinking(about.uid)};
  tale.waits = about.sequence != 0 && wait_reports_.will_tell(about.uid, about.sequence);
  const FrameSource own;
  const RecorderView view = recorder_.view();
  add_calls(tale, view, about, about.sites ? &own : nullptr);
  // It may be for that reason that it does not come.
  for (const int culprit : failure_seen().missing)
    if (culprit != rank_)
      tale.remark += fmt::format("; it has seen a failure of {}", name_of(culprit));
  tale.doing += tale.remark;
  const auto making = unended_making(view);
  tale.makes = making && making->uid == about.uid;
  tale.awaited = own_wait();
  const ProgressEngine* engine = watched_engine_.load(std::memory_order_acquire);
  tale.undriven =
      engine != nullptr && about.sequence != 0 && engine->is_undriven(about.uid, about.sequence);
  if (const auto mark = registry_.mark(about.uid)) {
    tale.knows_group = true;
    tale.entered = mark->entered;
    tale.completed = mark->completed;
  }
  std::lock_guard lock(known_mutex_);
  visit_known(about.uid, [&](const GroupState& group) {
    tale.entered = std::max(tale.entered, group.compared());
  });
  return tale;
}

CallTale WorldState::tell_calls(std::uint64_t uid, std::uint64_t sequence) {
  std::lock_guard lock(known_mutex_);
  CallTale tale;
  visit_known(uid, [&](const GroupState& group) {
    if (group.is_member()) tale = tale_of(look_at_calls(group.line(), ring(), uid, sequence));
  });
  return tale;
}

std::optional<RecorderView> WorldState::records_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  const bool pretends_to_be_elsewhere = site_ && persons_.at(index).host != site_->host;
  if (!control_ || pretends_to_be_elsewhere) return std::nullopt;
  return control_->view_of(rank);
}

}  // namespace hymn::detail
