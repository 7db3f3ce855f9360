#include "control/agent.hpp"

#include <algorithm>

#include "control/desk.hpp"

namespace hymn::control {
namespace {

// How long a thread that waits for the others sleeps before it looks at its deadline again.
constexpr auto longest_nap = std::chrono::milliseconds(20);

}  // namespace

Agent::Agent(int rank, int size, Listener& listener, Send send)
    : rank_(rank), listener_(&listener), send_(std::move(send)) {
  for (int peer = 0; peer < size; ++peer) peers_.push_back({.rank = peer});
}

template <class Call>
void Agent::tell_listener(Call&& call) {
  std::shared_lock lock(listener_mutex_);
  if (listener_ != nullptr) call(*listener_);
}

void Agent::close() {
  std::lock_guard lock(listener_mutex_);
  listener_ = nullptr;
}

void Agent::post(const Message& message) {
  if (const auto* abort = std::get_if<AbortGroup>(&message)) {
    std::lock_guard lock(mutex_);
    aborted_.try_emplace(abort->uid, *abort);
  }
  send_(message);
}

void Agent::set_in_sight(std::set<int> ranks) {
  std::lock_guard lock(mutex_);
  in_sight_ = std::move(ranks);
}

bool Agent::learn(const PeerNews& news, bool own_eyes) {
  std::lock_guard lock(mutex_);
  if (news.rank < 0 || news.rank >= static_cast<int>(peers_.size()) || news.rank == rank_)
    return false;
  PeerNews& known = peers_[static_cast<std::size_t>(news.rank)];
  // Its end may be seen before its last words come.
  const bool explains = known.state == PeerState::left && news.state == PeerState::left &&
                        known.culprits.empty() && !news.culprits.empty();
  if (explains) {
    known.detail = news.detail;
    known.culprits = news.culprits;
    return true;
  }
  if (known.state == PeerState::left || known.state == PeerState::dead) return false;
  if (news.state == PeerState::lost && !own_eyes && in_sight_.contains(news.rank)) return false;
  const bool comes_back = news.state == PeerState::alive && known.state != PeerState::alive;
  if (news.state <= known.state && !comes_back) return false;
  // What was said before may tell more of where it was.
  PeerNews merged = news;
  if (merged.marks.empty()) merged.marks = known.marks;
  known = std::move(merged);
  changed_.notify_all();
  return true;
}

void Agent::sight(const PeerNews& news) {
  if (!learn(news, true)) return;
  tell_listener([&](Listener& world) { world.peer_changed(news_of(news.rank)); });
  send_(News{news});
}

PeerNews Agent::news_of(int rank) const {
  std::lock_guard lock(mutex_);
  return peers_.at(static_cast<std::size_t>(rank));
}

std::vector<PeerNews> Agent::all_news() const {
  std::lock_guard lock(mutex_);
  std::vector<PeerNews> all;
  std::copy_if(peers_.begin(), peers_.end(), std::back_inserter(all),
               [](const PeerNews& news) { return news.state != PeerState::alive; });
  return all;
}

std::vector<Tale> Agent::ask(std::uint64_t uid, std::span<const int> ranks, Duration limit) {
  Question question{.asker = rank_, .uid = uid};
  std::unique_lock lock(mutex_);
  question.id = next_question_++;
  const auto is_asked = [&](int rank) {
    return rank != rank_ && !is_gone(peers_.at(static_cast<std::size_t>(rank)).state);
  };
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(question.asked), is_asked);
  const int keeper = !question.asked.empty() && keeper_ >= 0 && is_asked(keeper_) ? keeper_ : -1;
  if (keeper >= 0 && std::find(ranks.begin(), ranks.end(), keeper) == ranks.end())
    question.asked.push_back(keeper);
  const auto& answers = askings_[question.id];
  lock.unlock();
  if (!question.asked.empty()) send_(question);
  lock.lock();
  changed_.wait_for(lock, limit, [&] {
    return std::all_of(question.asked.begin(), question.asked.end(), [&](int rank) {
      return answers.contains(rank) || is_gone(peers_[static_cast<std::size_t>(rank)].state);
    });
  });
  const bool is_cut_off = keeper >= 0 && !answers.contains(keeper);
  std::vector<Tale> tales;
  for (const int rank : ranks) {
    if (const auto answer = answers.find(rank); answer != answers.end()) {
      tales.push_back(answer->second);
      tales.back().answered = true;
      continue;
    }
    const PeerNews& known = peers_.at(static_cast<std::size_t>(rank));
    // Who is there would have answered.
    Tale tale{.rank = rank, .state = std::max(known.state, PeerState::stalled)};
    tale.doing = known.state == PeerState::alive ? "it does not answer" : known.detail;
    tale.cut_off = is_cut_off && rank != keeper && is_asked(rank);
    for (const GroupMark& mark : known.marks)
      if (mark.uid == uid) tale.entered = mark.entered, tale.completed = mark.completed;
    tales.push_back(std::move(tale));
  }
  askings_.erase(question.id);
  lock.unlock();
  // This rank itself may be among them: it need not ask.
  for (Tale& tale : tales)
    if (tale.rank == rank_) {
      tell_listener([&](Listener& world) { tale = world.tell(uid); });
      tale.rank = rank_;
      tale.answered = true;
    }
  return tales;
}

std::uint64_t Agent::ask_for_calls(std::uint64_t uid, std::uint64_t sequence,
                                   std::span<const int> ranks) {
  CallQuestion question{
      .asker = rank_, .uid = uid, .sequence = sequence, .asked = {ranks.begin(), ranks.end()}};
  {
    std::lock_guard lock(mutex_);
    question.id = next_question_++;
    call_askings_[question.id];
  }
  send_(question);
  return question.id;
}

std::vector<CallTale> Agent::take_calls(std::uint64_t question) {
  std::lock_guard lock(mutex_);
  const auto asking = call_askings_.find(question);
  return asking == call_askings_.end() ? std::vector<CallTale>()
                                       : std::exchange(asking->second, {});
}

void Agent::forget_calls(std::uint64_t question) {
  std::lock_guard lock(mutex_);
  call_askings_.erase(question);
}

std::optional<ShrinkVerdict> Agent::shrink(std::uint64_t uid, std::span<const int> members,
                                           Deadline deadline, const Clock& clock) {
  return settle(uid, members, deadline, clock, [] { return false; });
}

std::optional<ShrinkVerdict> Agent::confirm(std::uint64_t uid, std::span<const int> members,
                                            Deadline deadline, const Clock& clock) {
  return settle(uid, members, deadline, clock, [&] { return aborted_.contains(uid); });
}

std::optional<ShrinkVerdict> Agent::settle(std::uint64_t uid, std::span<const int> members,
                                           Deadline deadline, const Clock& clock,
                                           const std::function<bool()>& is_vain) {
  // Without others there is no desk.
  if (peers_.size() == 1) return ShrinkVerdict{uid, first_shrunk_uid + settled_alone_++, {rank_}};
  const ShrinkCall call{uid, {members.begin(), members.end()}};
  reject_verdict(uid);  // of an earlier time
  {
    std::lock_guard lock(mutex_);
    shrinking_[uid] = call.members;
    unsettled_.insert(uid);
  }
  send_(call);
  std::unique_lock lock(mutex_);
  while (!verdicts_.contains(uid)) {
    if (is_vain() || deadline.expired(clock.now())) break;
    changed_.wait_for(lock, longest_nap);
  }
  shrinking_.erase(uid);
  const auto verdict = verdicts_.find(uid);
  if (verdict != verdicts_.end()) {
    unsettled_.erase(uid);
    return verdict->second;
  }
  lock.unlock();
  send_(ShrinkCall{.uid = uid});
  return std::nullopt;
}

bool Agent::is_shrinking(std::uint64_t uid) const {
  std::lock_guard lock(mutex_);
  return unsettled_.contains(uid);
}

void Agent::reject_verdict(std::uint64_t uid) {
  {
    std::lock_guard lock(mutex_);
    if (verdicts_.erase(uid) == 0) return;
  }
  send_(ShrinkCall{.uid = uid});
}

void Agent::receive(Message message) {
  std::visit([this](const auto& kind) { on(kind); }, message);
}

void Agent::reached_desk(int keeper) {
  {
    std::lock_guard lock(mutex_);
    keeper_ = keeper;
  }
  for (const PeerNews& news : all_news())
    if (is_gone(news.state)) send_(News{news});
  std::vector<Message> again;
  {
    std::lock_guard lock(mutex_);
    // It may have been the last thing that the desk before heard.
    for (const auto& [uid, abort] : aborted_) again.emplace_back(abort);
    for (const auto& [uid, verdict] : verdicts_) again.emplace_back(verdict);
    for (const auto& [uid, members] : shrinking_) again.emplace_back(ShrinkCall{uid, members});
  }
  for (const Message& message : again) send_(message);
}

void Agent::on(const News& message) {
  if (!learn(message.news, false)) return;
  tell_listener([&](Listener& world) { world.peer_changed(news_of(message.news.rank)); });
}

void Agent::on(const AbortGroup& message) {
  {
    std::lock_guard lock(mutex_);
    // Each desk says what it knows, to all who come to it.
    if (!aborted_.try_emplace(message.uid, message).second) return;
    changed_.notify_all();
  }
  tell_listener([&](Listener& world) { world.group_aborted(message); });
}

void Agent::on(const DumpNow& message) {
  tell_listener([&](Listener& world) { world.dump_asked(message); });
}

// Within a call of the listener: what carries messages may be gone as soon as this is closed.
template <class AnyAnswer>
void Agent::answer(AnyAnswer answer) {
  answer.tale.rank = rank_;
  send_(answer);
}

void Agent::on(const Question& message) {
  tell_listener(
      [&](Listener& world) { answer(Answer{message.id, message.asker, world.tell(message.uid)}); });
}

void Agent::on(const Answer& message) {
  std::lock_guard lock(mutex_);
  const auto asking = askings_.find(message.id);
  if (asking == askings_.end()) return;
  asking->second.emplace(message.tale.rank, message.tale);
  changed_.notify_all();
}

void Agent::on(const CallQuestion& message) {
  tell_listener([&](Listener& world) {
    answer(CallAnswer{message.id, message.asker, world.tell_calls(message.uid, message.sequence)});
  });
}

void Agent::on(const CallAnswer& message) {
  std::lock_guard lock(mutex_);
  const auto asking = call_askings_.find(message.id);
  if (asking != call_askings_.end()) asking->second.push_back(message.tale);
}

void Agent::on(const ShrinkVerdict& message) {
  std::lock_guard lock(mutex_);
  verdicts_.insert_or_assign(message.uid, message);
  changed_.notify_all();
}

}  // namespace hymn::control
