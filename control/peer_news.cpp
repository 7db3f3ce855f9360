#include "control/peer_news.hpp"

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

}  // namespace hymn
