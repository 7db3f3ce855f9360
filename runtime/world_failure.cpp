// What a world knows of the ranks in it, and does when one of them fails.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/world_state.hpp"

namespace hymn::detail {
namespace {

// A tag of the bootstrap, beside those of world_meeting.cpp and job_map.cpp.
constexpr std::uint64_t tag_control = 7;

// So many ranks keep the desk, one after the other: each must be reached by all.
constexpr std::size_t most_desks = 3;

// Who is there answers in microseconds.
constexpr Duration longest_question = std::chrono::milliseconds(300);

/// Rank 0, then one on each other host, then any.
std::vector<int> choose_desks(const std::vector<Arrival>& arrivals) {
  std::vector<int> desks;
  std::set<std::string> hosts;
  const auto take = [&](int rank) {
    if (desks.size() < most_desks && std::find(desks.begin(), desks.end(), rank) == desks.end())
      desks.push_back(rank);
  };
  const int size = static_cast<int>(arrivals.size());
  for (int rank = 0; rank < size; ++rank)
    if (hosts.insert(arrivals[static_cast<std::size_t>(rank)].host_key).second) take(rank);
  for (int rank = 0; rank < size; ++rank) take(rank);
  return desks;
}

}  // namespace

void WorldState::start_control(const std::vector<Arrival>& arrivals, const std::string& secret) {
  make_watchdog();
  for (const Arrival& arrival : arrivals) persons_.push_back({arrival.host_name, arrival.pid});
  if (!control_) return;
  ControlSite site{.rank = rank_, .size = size_, .desks = choose_desks(arrivals)};
  site.secret = secret;
  site.recorder = recorder_.key();
  const Arrival& own = arrivals[static_cast<std::size_t>(rank_)];
  for (int rank = 0; rank < size_; ++rank)
    if (arrivals[static_cast<std::size_t>(rank)].host_key == own.host_key)
      site.here.push_back(rank);
  site.one_host = site.here.size() == arrivals.size();
  std::vector<int> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  const auto offers = all_gather(*exchange_, all, tag_control, control_->offer(site),
                                 patience("starting the control plane", init_limit()));
  control::Listener& listener = *this;
  agent_ = std::make_shared<control::Agent>(
      rank_, size_, listener,
      [control = control_.get()](const control::Message& message) { control->post(message); });
  control_->open(agent_, offers, {.marks = [this] { return marks(); }, .beat = [this] { beat(); }});
}

void WorldState::say_goodbye() {
  if (watchdog_) watchdog_->leave();
  if (agent_) agent_->post(control::Goodbye{marks()});
  recorder_.say_farewell(RecorderHeader::farewell_goodbye);
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

std::vector<Tale> WorldState::ask(std::uint64_t uid, std::span<const int> ranks,
                                  Duration limit) const {
  if (!agent_) return {};
  return agent_->ask(uid, ranks, limit);
}

void WorldState::announce_abort(std::uint64_t uid, const GroupState::Failure& failure) {
  if (agent_) agent_->post(control::AbortGroup{uid, failure.reason, failure.missing});
}

bool WorldState::has_failed(int rank) const {
  return agent_ && hymn::has_failed(agent_->news_of(rank).state);
}

// Not by shared pointers: a group must not end, which takes its time, on the thread of the control
// plane.
void WorldState::enter_group(GroupState& group) {
  std::optional<GroupState::Failure> failure;
  {
    std::lock_guard lock(known_mutex_);
    known_groups_.push_back(&group);
    if (const auto early = aborted_early_.extract(group.membership().uid); !early.empty())
      failure = early.mapped();
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
  std::lock_guard lock(known_mutex_);
  std::erase(known_groups_, &group);
}

void WorldState::peer_changed(const PeerNews& news) {
  if (hymn::has_failed(news.state)) {
    logger_.warning(
        fmt::format("{} is {}: {}", name_of(news.rank), to_string(news.state), news.detail));
    mark_failed();
    dump_for(news);
    // Everybody hears of it: nobody need be told.
    watchdog_->dump({"death", fmt::format("{} is {}: {}", name_of(news.rank), to_string(news.state),
                                          news.detail)});
  }
  std::lock_guard lock(known_mutex_);
  for (GroupState* group : known_groups_) group->member_changed(news);
}

void WorldState::group_aborted(const control::AbortGroup& message) {
  bool concerned = false;
  const GroupState::Failure failure{message.reason, message.missing};
  watchdog_->dump({"abort", message.reason});
  {
    std::lock_guard lock(known_mutex_);
    for (GroupState* group : known_groups_) {
      if (group->membership().uid != message.uid || !group->is_member()) continue;
      group->abort_here(failure);
      concerned = true;
    }
    // It may still be in the making here.
    if (!concerned) aborted_early_.try_emplace(message.uid, failure);
  }
  if (concerned) group_failed(failure);
}

ProcessGroup WorldState::shrink(GroupState& group) {
  const ErrorContext context = group.context("shrink");
  if (group.is_destroyed()) throw UsageError("the group has been destroyed", context);
  if (!group.is_member()) throw UsageError("this rank is not a member of the group", context);
  if (!agent_)
    throw UnsupportedError("without a control plane nobody knows who is left",
                           {.rank = rank_,
                            .group = context.group,
                            .operation = context.operation,
                            .remedy = "do not switch it off (HYMN_CONTROL)"});
  require_drive(context);
  if (!group.is_aborted()) group.abort({fmt::format("rank {} shrinks the group", rank_)});
  const Membership& old = group.membership();
  const TimePoint began = clock_->now();
  const Timeout limit = group.options().init_timeout.or_else(init_limit());
  const auto verdict = agent_->shrink(old.uid, old.ranks, Deadline::after(limit, began), *clock_);
  if (!verdict) throw_nobody_shrinks(group, clock_->now() - began);
  Membership membership{.ranks = verdict->survivors,
                        .uid = verdict->new_uid,
                        .parent = old.uid,
                        .epoch = old.epoch + 1,
                        .tag = old.tag};
  GroupOptions options = group.options();
  options.timeout = group.timeout();
  try {
    return ProcessGroup(make_group(std::move(membership), options));
  } catch (...) {
    agent_->reject_verdict(old.uid);
    throw;
  }
}

void WorldState::throw_nobody_shrinks(const GroupState& group, Duration waited) const {
  ErrorContext context = group.context("shrink");
  context.remedy = "call shrink on every member of the group that is left";
  std::vector<std::string> names;
  const Membership& membership = group.membership();
  for (const Tale& tale : ask(membership.uid, membership.ranks, longest_question)) {
    if (tale.rank == rank_ || tale.shrinks || hymn::is_gone(tale.state)) continue;
    context.missing.push_back(tale.rank);
    names.push_back(fmt::format("{} ({})", name_of(tale.rank), tale.doing));
  }
  throw TimeoutError(
      fmt::format("not all members that are left have called shrink within {:.3f} s{}{}",
                  std::chrono::duration<double>(waited).count(),
                  names.empty() ? "" : "; missing: ", fmt::join(names, "; ")),
      waited, std::move(context));
}

std::string WorldState::describe_doing() const {
  const std::uint64_t next = ring().next_id();
  if (next == 0) return "it has made no call yet";
  const auto last = ring().read(next - 1);
  if (!last) return "it is just making a call";
  const std::string call =
      fmt::format("{} #{} of group {}", to_string(last->type), last->sequence, last->group_uid);
  switch (last->state) {
    case CallState::scheduled:
    case CallState::started:
      return fmt::format("it is in {}", call);
    case CallState::completed:
      return fmt::format("its last call, {}, has completed", call);
    case CallState::failed:
      break;
  }
  return fmt::format("its last call, {}, has failed", call);
}

Tale WorldState::tell(std::uint64_t uid) {
  Tale tale{
      .rank = rank_, .shrinks = agent_ && agent_->is_shrinking(uid), .doing = describe_doing()};
  for (const GroupMark& mark : marks()) {
    if (mark.uid != uid) continue;
    tale.knows_group = true;
    tale.entered = mark.entered;
    tale.completed = mark.completed;
  }
  return tale;
}

std::vector<GroupMark> WorldState::marks() { return registry_.marks(); }

}  // namespace hymn::detail
