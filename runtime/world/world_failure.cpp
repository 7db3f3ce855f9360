// What a world knows of the ranks in it, and does when one of them fails.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "control/process_watch.hpp"
#include "recorder/last_call.hpp"
#include "recorder/making_note.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {
namespace {

// A tag of the bootstrap, beside those of world_meeting.cpp and job_map.cpp.
constexpr std::uint64_t tag_control = 7;

/// Rank 0, then one on each other host, then the rest.
std::vector<int> choose_coordinators(const std::vector<Arrival>& arrivals) {
  std::vector<int> coordinators;
  std::vector<int> rest;
  std::set<std::string> hosts;
  for (int rank = 0; rank < static_cast<int>(arrivals.size()); ++rank)
    (hosts.insert(arrivals[static_cast<std::size_t>(rank)].host_key).second ? coordinators : rest)
        .push_back(rank);
  coordinators.insert(coordinators.end(), rest.begin(), rest.end());
  coordinators.resize(std::min(coordinators.size(), control::most_coordinators));
  return coordinators;
}

}  // namespace

void WorldState::get_to_know(const std::vector<Arrival>& arrivals) {
  const Arrival& own = arrivals[static_cast<std::size_t>(rank_)];
  for (const Arrival& arrival : arrivals) {
    const bool in_sight = arrival.host_key == own.host_key && own.pid_namespace != 0 &&
                          arrival.pid_namespace == own.pid_namespace;
    persons_.push_back({arrival.host_name, arrival.pid, in_sight});
    if (&arrival != &own && arrival.process == own.process) has_peers_here_ = true;
  }
}

void WorldState::start_control(const std::vector<Arrival>& arrivals, const std::string& secret) {
  make_watchdog();
  if (!control_) return;
  ControlSite site{.rank = rank_, .size = size_, .coordinators = choose_coordinators(arrivals)};
  site.secret = secret;
  site.recorder = recorder_.key();
  site.shared_record = recorder_.share();
  const Arrival& own = arrivals[static_cast<std::size_t>(rank_)];
  for (int rank = 0; rank < size_; ++rank) {
    const Person& person = persons_[static_cast<std::size_t>(rank)];
    if (arrivals[static_cast<std::size_t>(rank)].host_key == own.host_key)
      site.here.push_back({rank, person.pid, person.in_sight});
  }
  site.one_host = site.here.size() == arrivals.size();
  const std::vector<int> all = all_ranks();
  const auto offers = all_gather(*exchange_, all, tag_control, control_->offer(site),
                                 making_patience("starting the control plane", init_limit(), all));
  control::Listener& listener = *this;
  agent_ = std::make_shared<control::Agent>(
      rank_, size_, listener,
      [control = control_.get()](const control::Message& message) { control->post(message); });
  control_->open(agent_, offers, {.marks = [this] { return marks(); }, .beat = [this] { beat(); }});
  watchdog_->beat();  // whoever has a world can be asked for its dump
}

void WorldState::say_goodbye() {
  // What this rank knows is gone soon.
  if (watchdog_ && is_leaving()) watchdog_->dump({"error", cause_of_leaving().reason});
  if (watchdog_) watchdog_->leave();
  // Who waits for this rank must not take it for the culprit, unless it is.
  const GroupState::Failure failure = is_leaving() ? cause_of_leaving() : failure_seen();
  if (agent_)
    agent_->post(control::Goodbye{marks(), failure.reason, failure.missing, is_leaving()});
  const std::uint32_t because =
      is_leaving() ? RecorderHeader::farewell_error : RecorderHeader::farewell_after;
  recorder_.say_farewell(failure.missing.empty()
                             ? RecorderHeader::farewell_goodbye
                             : because + static_cast<std::uint32_t>(failure.missing.front()));
  // Nobody is waited for who might hear it meanwhile.
  if (is_leaving() && agent_) control_->flush();
}

GroupState::Failure WorldState::cause_of_leaving() const {
  const GroupState::Failure failure = first_failure();
  if (!failure.missing.empty()) return failure;
  return {"an exception has come out of the scope of its World", {rank_}};
}

void WorldState::leave_because_of(std::string_view what) {
  if (first_failure().missing.empty())
    note_failure(
        {fmt::format("an exception has come out of the rank's function: {}", what), {rank_}});
  mark_leaving();
}

void WorldState::leave_unmade(const Error& error) {
  if (!agent_) return;
  note_failure({error.problem(), error.context().missing});
  mark_leaving();
  say_goodbye();
}

WorldState::Seen WorldState::seen_now(const GroupState::Failure& failure) const {
  return {failure, recorder_.view().ring().next_id()};
}

bool WorldState::has_gone_on_after(const Seen& seen) const {
  const RecorderView view = recorder_.view();
  return view.capacity() == 0 || hymn::has_gone_on_after(view, seen.calls);
}

// Who goes on after a failure, with other groups or other ranks, may well have meant to: then it
// is of no account.
GroupState::Failure WorldState::failure_seen() const {
  std::lock_guard lock(failure_mutex_);
  for (const Seen* const seen : {&first_failure_, &failed_message_})
    if (!seen->failure.missing.empty() && !has_gone_on_after(*seen)) return seen->failure;
  return {};
}

void WorldState::note_failed_message(const GroupState::Failure& failure) {
  incident({"error", failure.reason});
  std::lock_guard lock(failure_mutex_);
  failed_message_ = seen_now(failure);
}

void WorldState::note_failure(const GroupState::Failure& failure) {
  std::lock_guard lock(failure_mutex_);
  if (first_failure_.failure.missing.empty() || has_gone_on_after(first_failure_))
    first_failure_ = seen_now(failure);
}

void WorldState::forget_failure() {
  std::lock_guard lock(failure_mutex_);
  first_failure_ = {};
  failed_message_ = {};
}

GroupState::Failure WorldState::first_failure() const {
  std::lock_guard lock(failure_mutex_);
  return first_failure_.failure;
}

void WorldState::end_control() {
  if (watchdog_) watchdog_->end();
  if (!agent_) return;
  control_->close();
  agent_->close();
}

std::string WorldState::name_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= persons_.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({}, pid {})", rank, persons_[index].host, persons_[index].pid);
}

std::vector<int> WorldState::gone_ranks_in(std::string_view text) const {
  std::vector<int> named = all_ranks();
  std::erase_if(named, [&](int rank) {
    return text.find(name_of(rank)) == std::string_view::npos || tell_of(rank).empty();
  });
  return culprits_for(named);
}

void WorldState::announce_abort(std::uint64_t uid, const GroupState::Failure& failure) {
  if (agent_) agent_->post(control::AbortGroup{uid, failure.reason, failure.missing});
}

bool WorldState::is_over(int rank) const {
  if (persons_.empty()) return early_ && early_->has_ended(rank);
  const auto index = static_cast<std::size_t>(rank);
  return index < persons_.size() && persons_[index].in_sight && has_ended(persons_[index].pid);
}

std::string WorldState::describe_end(const PeerNews& news) const {
  const char* const verb = hymn::has_failed(news.state) ? "is" : "has";
  const std::string words =
      fmt::format("{} {} {}: {}", name_of(news.rank), verb, to_string(news.state), news.detail);
  return words + tell_culprits(news, words);
}

std::string WorldState::tell_culprits(const PeerNews& news, std::string_view told) const {
  std::string words;
  for (const int culprit : news.culprits)
    if (told.find(name_of(culprit)) == std::string_view::npos)
      words += fmt::format(", a failure of {}", name_of(culprit));
  return words;
}

std::string WorldState::tell_of(int rank) const {
  if (agent_)
    if (const PeerNews news = agent_->news_of(rank); is_gone(news.state)) return describe_end(news);
  if (persons_.empty()) return early_ ? early_->tell_of(rank) : "";
  const Person& person = persons_.at(static_cast<std::size_t>(rank));
  if (is_over(rank))
    return describe_end(
        {.rank = rank, .state = PeerState::dead, .detail = words_of_end(how_it_ended(person.pid))});
  return person.in_sight && is_stopped(person.pid) ? name_of(rank) + " is stopped" : "";
}

// Who has left may still have sent something on its way out; but not who left because of a failure.
// Until there is a control plane, processes can at least be seen.
bool WorldState::is_hopeless(int rank) const {
  if (!agent_) return is_over(rank);
  const PeerNews news = agent_->news_of(rank);
  return hymn::has_failed(news.state) || (is_gone(news.state) && news.broke_off);
}

std::vector<int> WorldState::culprits_for(const std::vector<int>& missing) const {
  if (!agent_) return missing;
  std::vector<PeerNews> news;
  for (const int rank : missing) news.push_back(agent_->news_of(rank));
  return culprits_of(news);
}

// Not by shared pointers: a group must not end, which takes its time, on the thread of the control
// plane.
void WorldState::enter_group(GroupState& group) {
  std::optional<GroupState::Failure> failure;
  {
    std::lock_guard lock(known_mutex_);
    known_groups_.emplace(key_of(group), &group);
    if (auto* const early = early_aborts_.find(group.membership().uid)) failure = *early;
    early_aborts_.erase(group.membership().uid);
  }
  if (failure && group.is_member()) {
    group.abort_here(*failure);
    group_failed(*failure);
  }
  if (!agent_) return;
  for (const PeerNews& news : agent_->all_news())
    if (is_gone(news.state)) group.member_changed(news);
}

void WorldState::forget_group(const GroupState& group) {
  {
    std::lock_guard lock(known_mutex_);
    known_groups_.erase(key_of(group));
  }
  std::lock_guard lock(groups_mutex_);
  groups_.erase(key_of(group));
}

void WorldState::peer_changed(const PeerNews& news) {
  {
    std::lock_guard lock(known_mutex_);
    for (const auto& [key, group] : known_groups_) group->member_changed(news);
  }
  if (!hymn::has_failed(news.state)) return;
  const std::string text = describe_end(news);
  logger_.warning(text);
  mark_failed();
  // Everybody hears of it: nobody need be told.
  watchdog_->dump({"death", text});
  dump_for(news);
}

void WorldState::group_aborted(const control::AbortGroup& message) {
  bool is_known = false;
  bool concerned = false;
  const GroupState::Failure failure{message.reason, message.missing};
  watchdog_->dump({"abort", message.reason});
  {
    std::lock_guard lock(known_mutex_);
    visit_known(message.uid, [&](GroupState& group) {
      is_known = true;
      concerned = group.is_member();
      if (concerned) group.abort_here(failure);
    });
    // Others may have made the group, and given it up, before this rank has finished making it.
    if (!is_known) early_aborts_.try_emplace(message.uid, failure);
  }
  if (concerned) group_failed(failure);
}

ProcessGroup WorldState::shrink(GroupState& group) {
  const ErrorContext context = group.context("shrink");
  require_here(context);
  if (group.is_destroyed() || is_destroyed())
    throw UsageError("the group has been destroyed", context);
  if (!group.is_member()) throw UsageError("this rank is not a member of the group", context);
  if (!agent_)
    throw UnsupportedError("without a control plane nobody knows who is left",
                           {.rank = rank_,
                            .group = context.group,
                            .operation = context.operation,
                            .remedy = "do not switch it off (HYMN_CONTROL)"});
  require_drive(context);
  maker_->settle(patience("waiting for groups that are being made", Timeout::none()));
  const Membership& old = group.membership();
  group.line().flags.fetch_or(GroupLine::shrunk, std::memory_order_acq_rel);
  MakingNote note(recorder_, old.uid, old.ranks, MakingKind::shrink);
  if (!group.is_aborted()) group.abort_to_shrink();
  const TimePoint began = clock_->now();
  const Patience patient = shrink_patience(group, old.uid, old.ranks);
  while (true) {
    note.begin();
    const auto verdict = agent_->shrink(old.uid, old.ranks, patient);
    if (!verdict) {
      if (!agent_->has_no_coordinator())
        incident(
            {"timeout", fmt::format("shrink of group '{}': not all have come", group.label())});
      throw_not_all_have(group, "called shrink", old.uid, old.ranks, clock_->now() - began);
    }
    try {
      if (auto shrunk = make_shrunk_group(group, *verdict)) {
        forget_failure();
        note.set_made();
        return ProcessGroup(std::move(shrunk));
      }
    } catch (...) {
      agent_->reject_verdict(old.uid);
      throw;
    }
  }
}

Patience WorldState::shrink_patience(const GroupState& group, std::uint64_t uid,
                                     std::vector<int> ranks) const {
  Patience patient = patience("shrinking a group", shrink_limit(group));
  patient.long_wait = long_wait_in_shrink(fmt::format("shrinking group '{}'", group.label()), uid,
                                          std::move(ranks));
  return patient;
}

Timeout WorldState::shrink_limit(const GroupState& group) const {
  return group.options().init_timeout.or_else(init_limit());
}

// Some may have made the group, and others not, when one of those that were left is lost, too. Then
// all throw it away, and try again without that one: it is made for all or for none.
std::shared_ptr<GroupState> WorldState::make_shrunk_group(const GroupState& group,
                                                          const control::ShrinkVerdict& verdict) {
  const Membership& old = group.membership();
  GroupOptions options = group.options();
  options.timeout = group.timeout();
  std::shared_ptr<GroupState> shrunk;
  try {
    shrunk = make_group({.ranks = verdict.survivors,
                         .uid = verdict.new_uid,
                         .parent = old.uid,
                         .epoch = old.epoch + 1,
                         .tag = old.tag},
                        options);
  } catch (const std::exception& error) {
    std::vector<int> lost;
    std::copy_if(verdict.survivors.begin(), verdict.survivors.end(), std::back_inserter(lost),
                 [this](int rank) { return is_hopeless(rank); });
    announce_abort(verdict.new_uid, {error.what(), lost});
    if (lost.empty()) throw;
    return nullptr;
  }
  const TimePoint began = clock_->now();
  MakingNote note(recorder_, old.uid, verdict.survivors, MakingKind::shrink);
  const auto made = agent_->confirm(verdict.new_uid, verdict.survivors,
                                    shrink_patience(group, verdict.new_uid, verdict.survivors));
  if (made && made->survivors == verdict.survivors) {
    note.set_made();
    return shrunk;
  }
  if (made) {
    shrunk->abort_here({"a rank was lost before all had the group"});
    return nullptr;
  }
  if (shrunk->is_aborted()) {
    if (!shrunk->abort_failure().missing.empty()) return nullptr;
    std::rethrow_exception(shrunk->aborted_error("shrink"));
  }
  try {
    throw_not_all_have(group, "made the new group", verdict.new_uid, verdict.survivors,
                       clock_->now() - began);
  } catch (const Error& error) {
    shrunk->abort({error.problem()});
    throw;
  }
}

void WorldState::throw_not_all_have(const GroupState& group, const char* done, std::uint64_t uid,
                                    const std::vector<int>& ranks, Duration waited) const {
  ErrorContext context = group.context("shrink");
  if (agent_->has_no_coordinator()) {
    context.remedy = "check that the hosts can reach each other (HYMN_INTERFACE), or end the job";
    throw UnsupportedError(
        "the ranks cannot agree on who is left: no rank that runs a coordinator of the control "
        "plane can "
        "be reached",
        std::move(context));
  }
  context.remedy = "call shrink on every member of the group that is left";
  std::vector<std::string> names;
  for (const ProgressReport& report : ask(uid, ranks, control::longest_question)) {
    if (report.rank == rank_ || report.shrinks || hymn::is_gone(report.state)) continue;
    context.missing.push_back(report.rank);
    names.push_back(fmt::format("{} ({})", name_of(report.rank), report.doing));
  }
  throw TimeoutError(fmt::format("not all members that are left have {} within {:.3f} s{}{}", done,
                                 std::chrono::duration<double>(waited).count(),
                                 names.empty() ? "" : "; missing: ", fmt::join(names, "; ")),
                     waited, std::move(context));
}

std::vector<GroupMark> WorldState::marks() { return registry_.marks(); }

}  // namespace hymn::detail
