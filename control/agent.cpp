#include "control/agent.hpp"

#include <algorithm>

namespace hymn::control {
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
  if (const auto* goodbye = std::get_if<Goodbye>(&message)) {
    std::lock_guard lock(mutex_);
    goodbye_ = *goodbye;
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
  if (known.state == PeerState::left && news.state == PeerState::left) {
    const bool explains = known.culprits.empty() && !news.culprits.empty();
    if (explains) {
      known.detail = news.detail;
      known.culprits = news.culprits;
      known.broke_off = news.broke_off;
    }
    return add_marks(known.marks, news.marks) || explains;
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

std::uint64_t Agent::begin_asking(const Inquiry& about, std::span<const int> ranks) {
  Question question{.asker = rank_, .about = about};
  {
    std::lock_guard lock(mutex_);
    question.id = next_question_++;
    std::ranges::copy_if(ranks, std::back_inserter(question.asked),
                         [this](int rank) { return is_asked(rank); });
    const int keeper = !question.asked.empty() && keeper_ >= 0 && is_asked(keeper_) ? keeper_ : -1;
    if (keeper >= 0 && std::ranges::find(ranks, keeper) == ranks.end())
      question.asked.push_back(keeper);
    askings_[question.id] = {about, {ranks.begin(), ranks.end()}, question.asked, keeper};
  }
  if (!question.asked.empty()) send_(question);
  return question.id;
}

bool Agent::is_complete(const Asking& asking) const {
  return std::ranges::all_of(asking.asked, [&](int rank) {
    return asking.answers.contains(rank) || is_gone(peers_[static_cast<std::size_t>(rank)].state);
  });
}

bool Agent::is_answered(std::uint64_t question) const {
  std::lock_guard lock(mutex_);
  const auto asking = askings_.find(question);
  return asking == askings_.end() || is_complete(asking->second);
}

ProgressReport Agent::report_without_answer(const Asking& asking, int rank) const {
  const PeerNews& known = peers_.at(static_cast<std::size_t>(rank));
  // Who is there would have answered.
  ProgressReport report{.rank = rank, .state = std::max(known.state, PeerState::stalled)};
  report.doing = known.state == PeerState::alive ? "it does not answer" : known.detail;
  const bool is_cut_off = asking.keeper >= 0 && !asking.answers.contains(asking.keeper);
  report.cut_off = is_cut_off && rank != asking.keeper && is_asked(rank);
  for (const GroupMark& mark : known.marks)
    if (mark.uid == asking.about.uid)
      report.entered = mark.entered, report.completed = mark.completed;
  return report;
}

std::vector<ProgressReport> Agent::end_asking(std::uint64_t question) {
  std::lock_guard lock(mutex_);
  std::vector<ProgressReport> reports;
  const auto asking = askings_.extract(question);
  if (asking.empty()) return reports;
  for (const int rank : asking.mapped().ranks) {
    if (const auto answer = asking.mapped().answers.find(rank);
        answer != asking.mapped().answers.end()) {
      reports.push_back(answer->second);
      reports.back().answered = true;
    } else {
      reports.push_back(report_without_answer(asking.mapped(), rank));
    }
  }
  return reports;
}

std::vector<ProgressReport> Agent::ask(const Inquiry& about, std::span<const int> ranks,
                                       Duration limit) {
  const std::uint64_t question = begin_asking(about, ranks);
  {
    std::unique_lock lock(mutex_);
    const Asking& asking = askings_.at(question);
    changed_.wait_for(lock, limit, [&] { return is_complete(asking); });
  }
  std::vector<ProgressReport> reports = end_asking(question);
  // This rank itself may be among them: it need not ask.
  for (ProgressReport& report : reports)
    if (report.rank == rank_) {
      tell_listener([&](Listener& world) { report = world.tell(about); });
      report.rank = rank_;
      report.answered = true;
    }
  return reports;
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

std::vector<CallProgress> Agent::take_calls(std::uint64_t question) {
  std::lock_guard lock(mutex_);
  const auto asking = call_askings_.find(question);
  return asking == call_askings_.end() ? std::vector<CallProgress>()
                                       : std::exchange(asking->second, {});
}

void Agent::forget_calls(std::uint64_t question) {
  std::lock_guard lock(mutex_);
  call_askings_.erase(question);
}

std::optional<ShrinkVerdict> Agent::shrink(std::uint64_t uid, std::span<const int> members,
                                           const Patience& patience) {
  return settle(uid, members, patience, [] { return false; });
}

std::optional<ShrinkVerdict> Agent::confirm(std::uint64_t uid, std::span<const int> members,
                                            const Patience& patience) {
  return settle(confirmation_of(uid), members, patience,
                [this, uid] { return aborted_.contains(uid); });
}

std::optional<ShrinkVerdict> Agent::settle(std::uint64_t uid, std::span<const int> members,
                                           const Patience& patience,
                                           const std::function<bool()>& is_vain) {
  {
    // Without others there is nothing to ask a coordinator, nor perhaps any to ask.
    const std::lock_guard lock(mutex_);
    if (is_left_alone(members)) {
      unsettled_.erase(uid);
      return settle_alone(uid);
    }
  }
  call_to_settle({uid, {members.begin(), members.end()}});
  std::unique_lock lock(mutex_);
  try {
    PatientWait wait(patience);
    wait.until(lock, changed_, [&] {
      // The last one need not ask; nor could it, where those who ran coordinators are gone.
      if (!verdicts_.contains(uid) && is_left_alone(members))
        verdicts_.insert_or_assign(uid, settle_alone(uid));
      return verdicts_.contains(uid) || has_no_coordinator_ || is_vain();
    });
  } catch (...) {
    withdraw(uid);
    throw;
  }
  if (const ShrinkVerdict* const verdict = verdicts_.find(uid)) {
    shrinking_.erase(uid);
    unsettled_.erase(uid);
    return *verdict;
  }
  lock.unlock();
  withdraw(uid);
  return std::nullopt;
}

void Agent::call_to_settle(const ShrinkCall& call) {
  const std::lock_guard telling(telling_);
  std::optional<ShrinkVerdict> earlier;
  {
    const std::lock_guard lock(mutex_);
    if (const ShrinkVerdict* const known = verdicts_.find(call.uid)) earlier = *known;
  }
  if (earlier) reject(*earlier);
  {
    const std::lock_guard lock(mutex_);
    shrinking_[call.uid] = call.members;
    unsettled_.insert_or_assign(call.uid, {});
  }
  send_(call);
}

void Agent::withdraw(std::uint64_t uid) {
  const std::lock_guard telling(telling_);
  {
    const std::lock_guard lock(mutex_);
    shrinking_.erase(uid);
  }
  send_(ShrinkCall{.uid = uid});
}

ShrinkVerdict Agent::settle_alone(std::uint64_t uid) {
  const std::uint64_t first =
      first_lone_uid + static_cast<std::uint64_t>(rank_) * lone_uids_of_rank;
  return {uid, first + settled_alone_++, {rank_}};
}

bool Agent::is_left_alone(std::span<const int> members) const {
  return std::all_of(members.begin(), members.end(), [this](int member) {
    if (member == rank_) return true;
    const PeerState state = peers_.at(static_cast<std::size_t>(member)).state;
    return is_gone(state) && (state != PeerState::lost || has_no_coordinator_);
  });
}

bool Agent::is_shrinking(std::uint64_t uid) const {
  std::lock_guard lock(mutex_);
  return unsettled_.contains(uid) || unsettled_.contains(confirmation_of(uid));
}

void Agent::reject_verdict(const ShrinkVerdict& verdict) {
  const std::lock_guard telling(telling_);
  reject(verdict);
}

void Agent::reject(const ShrinkVerdict& verdict) {
  {
    const std::lock_guard lock(mutex_);
    rejected_.insert_or_assign(verdict.new_uid, verdict.uid);
    const ShrinkVerdict* const known = verdicts_.find(verdict.uid);
    if (known != nullptr && known->new_uid == verdict.new_uid) verdicts_.erase(verdict.uid);
  }
  send_(ShrinkCall{.uid = verdict.uid, .void_uid = verdict.new_uid});
}

void Agent::receive(Message message) {
  std::visit([this](const auto& kind) { on(kind); }, message);
}

void Agent::reached_coordinator(int keeper) {
  {
    std::lock_guard lock(mutex_);
    keeper_ = keeper;
  }
  for (const PeerNews& news : all_news()) send_(News{news});
  const std::lock_guard telling(telling_);
  std::vector<Message> again;
  {
    std::lock_guard lock(mutex_);
    // It may have been the last thing that the coordinator before heard.
    for (const auto& [uid, abort] : aborted_) again.emplace_back(abort);
    for (const auto& [new_uid, uid] : rejected_)
      again.emplace_back(ShrinkCall{.uid = uid, .void_uid = new_uid});
    for (const auto& [uid, verdict] : verdicts_) again.emplace_back(verdict);
    for (const auto& [uid, members] : shrinking_) again.emplace_back(ShrinkCall{uid, members});
    // The coordinator before may not have passed them on.
    for (const auto& [id, asking] : askings_)
      if (!is_complete(asking)) again.emplace_back(Question{id, rank_, asking.about, asking.asked});
    if (goodbye_) again.emplace_back(*goodbye_);
  }
  for (const Message& message : again) send_(message);
}

void Agent::lost_all_coordinators() {
  std::lock_guard lock(mutex_);
  has_no_coordinator_ = true;
  changed_.notify_all();
}

bool Agent::has_no_coordinator() const {
  std::lock_guard lock(mutex_);
  return has_no_coordinator_;
}

void Agent::on(const News& message) {
  if (!learn(message.news, false)) return;
  tell_listener([&](Listener& world) { world.peer_changed(news_of(message.news.rank)); });
}

std::optional<AbortGroup> Agent::abort_of(std::uint64_t uid) const {
  const std::lock_guard lock(mutex_);
  const AbortGroup* const first = aborted_.find(uid);
  return first == nullptr ? std::nullopt : std::optional(*first);
}

void Agent::on(const AbortGroup& message) {
  {
    std::lock_guard lock(mutex_);
    // Each coordinator says what it knows, to all who come to it.
    if (!aborted_.try_emplace(message.uid, message)) return;
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
  answer.report.rank = rank_;
  send_(answer);
}

void Agent::on(const Question& message) {
  tell_listener([&](Listener& world) {
    answer(Answer{message.id, message.asker, world.tell(message.about)});
  });
}

void Agent::on(const Answer& message) {
  std::lock_guard lock(mutex_);
  const auto asking = askings_.find(message.id);
  if (asking == askings_.end()) return;
  asking->second.answers.emplace(message.report.rank, message.report);
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
  if (asking != call_askings_.end()) asking->second.push_back(message.report);
}

void Agent::on(const ShrinkVerdict& message) {
  std::lock_guard lock(mutex_);
  // Who asks two coordinators, one after the other, is answered twice, and late.
  if (rejected_.contains(message.new_uid)) return;
  verdicts_.insert_or_assign(message.uid, message);
  changed_.notify_all();
}

}  // namespace hymn::control
