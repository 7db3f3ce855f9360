// What a world knows of the ranks in it, and does when one of them fails.

#include <fmt/format.h>

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
                                 patience("starting the control plane", default_timeout_));
  control::Listener& listener = *this;
  agent_ = std::make_shared<control::Agent>(
      rank_, size_, listener,
      [control = control_.get()](const control::Message& message) { control->post(message); });
  control_->open(agent_, offers, [this] { return marks(); });
}

void WorldState::say_goodbye() {
  if (agent_) agent_->post(control::Goodbye{marks()});
  recorder_.say_farewell(RecorderHeader::farewell_goodbye);
}

void WorldState::end_control() {
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
  {
    std::lock_guard lock(known_mutex_);
    known_groups_.push_back(&group);
    const auto abort = early_aborts_.find(group.membership().uid);
    if (abort != early_aborts_.end() && group.is_member()) group.abort_here(abort->second);
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
  }
  std::lock_guard lock(known_mutex_);
  for (GroupState* group : known_groups_) group->member_changed(news);
}

void WorldState::group_aborted(const control::AbortGroup& message) {
  const GroupState::Failure failure{message.reason, message.missing};
  std::lock_guard lock(known_mutex_);
  bool is_known = false;
  for (GroupState* group : known_groups_) {
    if (group->membership().uid != message.uid) continue;
    is_known = true;
    if (group->is_member()) group->abort_here(failure);
  }
  // Others may have made the group, and given it up, before this rank has finished making it.
  if (!is_known) early_aborts_.emplace(message.uid, failure);
}

void WorldState::dump_asked(const std::string&) {}

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
  Tale tale{.rank = rank_, .doing = describe_doing()};
  for (const GroupMark& mark : marks()) {
    if (mark.uid != uid) continue;
    tale.knows_group = true;
    tale.entered = mark.entered;
    tale.completed = mark.completed;
  }
  std::lock_guard lock(known_mutex_);
  for (const GroupState* group : known_groups_)
    if (group->membership().uid == uid) tale.entered = std::max(tale.entered, group->compared());
  return tale;
}

std::vector<GroupMark> WorldState::marks() { return registry_.marks(); }

}  // namespace hymn::detail
