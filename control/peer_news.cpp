#include "control/peer_news.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace hymn {

std::string_view to_string(PeerState state) noexcept {
  switch (state) {
    case PeerState::alive:
      return "alive";
    case PeerState::stalled:
      return "stalled";
    case PeerState::left:
      return "left";
    case PeerState::lost:
      return "lost";
    case PeerState::dead:
      return "dead";
  }
  return "?";
}

std::vector<int> culprits_of(const std::vector<PeerNews>& missing) {
  std::set<int> culprits;
  for (const PeerNews& news : missing)
    if (news.culprits.empty())
      culprits.insert(news.rank);
    else
      culprits.insert(news.culprits.begin(), news.culprits.end());
  return {culprits.begin(), culprits.end()};
}

bool add_marks(std::vector<GroupMark>& known, std::span<const GroupMark> more) {
  std::map<std::uint64_t, GroupMark> marks;
  for (const GroupMark& mark : known) marks[mark.uid] = mark;
  bool adds = false;
  for (const GroupMark& mark : more) {
    const auto [place, is_new] = marks.try_emplace(mark.uid, mark);
    GroupMark& best = place->second;
    adds = adds || is_new || mark.entered > best.entered || mark.completed > best.completed;
    best.entered = std::max(best.entered, mark.entered);
    best.completed = std::max(best.completed, mark.completed);
  }
  if (!adds) return false;
  known.clear();
  for (const auto& [uid, mark] : marks) known.push_back(mark);
  return true;
}

}  // namespace hymn
