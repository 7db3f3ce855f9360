#include "runtime/join/shadow_source.hpp"

#include <algorithm>
#include <ranges>
#include <thread>

namespace hymn::detail {
namespace {

// Who has waited for long may wait a little longer: an eighth of that at most.
constexpr Duration shortest_pause = std::chrono::microseconds(20);
constexpr Duration longest_pause = std::chrono::milliseconds(5);
// Who is there answers at once. A question or an answer may be lost together with a coordinator.
constexpr Duration source_patience = std::chrono::seconds(1);

}  // namespace

// --- A member

const SeenCall* ShadowedMember::find(std::uint64_t sequence) const {
  if (calls_.empty() || sequence < calls_.front().sequence) return nullptr;
  const std::uint64_t at = sequence - calls_.front().sequence;
  return at < calls_.size() ? &calls_[at] : nullptr;
}

bool ShadowedMember::learn(const CallSnapshot& snapshot, std::uint64_t sequence) {
  const bool is_news = snapshot.joins > joins_ || (!snapshot.calls.empty() && !find(sequence));
  is_silent_ = !snapshot.is_recorded;
  if (snapshot.joins >= joins_) {
    joins_ = snapshot.joins;
    joined_at_ = snapshot.joined_at;
  }
  lost_ = snapshot.is_overwritten ? sequence : 0;
  if (!snapshot.calls.empty()) calls_.assign(snapshot.calls.begin(), snapshot.calls.end());
  return is_news;
}

// --- Those that can be read

void ReadableMembers::add(int rank, const RecorderView& view) {
  members_.emplace_back(rank);
  recorders_.push_back({view});
}

void ReadableMembers::look(std::uint64_t sequence, std::uint64_t n, Wanted) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    ShadowedMember& member = members_[i];
    if (!member.makes(sequence, n) || member.find(sequence) != nullptr) continue;
    auto& [view, line] = recorders_[i];
    const bool is_here =
        line != nullptr && line->uid_plus_one.load(std::memory_order_acquire) == uid_ + 1;
    if (!is_here) line = view.line_of(uid_);
    if (line == nullptr) continue;
    const bool is_ahead = line->collectives.load(std::memory_order_acquire) >= sequence;
    if (is_ahead || line->joins.load(std::memory_order_acquire) >= n)
      member.learn(look_at_calls(*line, view.ring(), uid_, sequence), sequence);
  }
}

// --- Those that are asked

AskedMembers::~AskedMembers() {
  if (question_) agent_->forget_calls(*question_);
}

void AskedMembers::look(std::uint64_t sequence, std::uint64_t n, Wanted wanted) {
  if (members_.empty()) return;
  const auto makes = [&](const ShadowedMember& member) { return member.makes(sequence, n); };
  const auto is_known = [&](const ShadowedMember& member) {
    return member.find(sequence) != nullptr;
  };
  auto makers = members_ | std::views::filter(makes);
  if (wanted == Wanted::all ? std::ranges::all_of(makers, is_known)
                            : std::ranges::any_of(makers, is_known))
    return;
  collect();
  const TimePoint now = clock_.now();
  if (is_waiting() ? now - asked_at_ < source_patience : now < next_time_) return;
  if (const auto ranks = choose(sequence, n, wanted); !ranks.empty()) ask(sequence, ranks);
}

void AskedMembers::look_at_all(std::uint64_t sequence, std::uint64_t n) {
  if (members_.empty()) return;
  std::vector<int> ranks;
  for (const ShadowedMember& member : members_)
    if (member.makes(sequence, n)) ranks.push_back(member.rank());
  ask(sequence, ranks);
  const auto end = std::chrono::steady_clock::now() + control::longest_question;
  while (is_waiting() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(shortest_pause);
    collect();
  }
}

void AskedMembers::collect() {
  if (!question_) return;
  for (const CallProgress& report : agent_->take_calls(*question_)) {
    waited_for_.erase(report.rank);
    const auto member = std::ranges::find(members_, report.rank, &ShadowedMember::rank);
    if (member == members_.end() || !report.knows_group) continue;
    if (member->learn(snapshot_of(report), asked_for_)) last_news_ = clock_.now();
  }
  if (is_waiting()) return;
  agent_->forget_calls(*question_);
  question_.reset();
  const TimePoint now = clock_.now();
  next_time_ = now + std::clamp((now - last_news_) / 8, shortest_pause, longest_pause);
}

// Who is gone does not answer.
bool AskedMembers::is_waiting() {
  std::erase_if(waited_for_, [this](int rank) { return is_gone(agent_->news_of(rank).state); });
  return !waited_for_.empty();
}

std::vector<int> AskedMembers::choose(std::uint64_t sequence, std::uint64_t n, Wanted wanted) {
  std::vector<int> makers;
  std::vector<int> active;
  for (const ShadowedMember& member : members_) {
    if (member.makes(sequence, n) && member.find(sequence) == nullptr)
      makers.push_back(member.rank());
    if (!member.joined_at(n)) active.push_back(member.rank());
  }
  if (active.empty() || wanted == Wanted::all) return makers;
  if (std::ranges::count(active, followed_) != 0) return {followed_};
  // Not all shadows shall ask the same one.
  followed_ = active[static_cast<std::size_t>(agent_->rank()) % active.size()];
  return makers;
}

void AskedMembers::ask(std::uint64_t sequence, const std::vector<int>& ranks) {
  if (question_) agent_->forget_calls(*question_);
  asked_for_ = sequence;
  asked_at_ = clock_.now();
  waited_for_ = {ranks.begin(), ranks.end()};
  question_ = agent_->ask_for_calls(uid_, sequence, ranks);
}

}  // namespace hymn::detail
