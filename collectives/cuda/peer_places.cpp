#include "collectives/cuda/peer_places.hpp"

#include <algorithm>

#include "collectives/cuda/peer_channel.hpp"

namespace hymn {

void PeerPlaces::enter(PeerChannel& channel, cuda_api::Stream stream) {
  std::lock_guard lock(mutex_);
  auto place = std::ranges::find(latest_first_, &channel);
  if (place == latest_first_.end()) {
    place = std::prev(place);  // free, or whose turn was longest ago
    if (*place != nullptr) (*place)->let_wait(stream);
  }
  std::rotate(latest_first_.begin(), place, std::next(place));
  latest_first_.front() = &channel;
}

void PeerPlaces::leave(const PeerChannel& channel) {
  std::lock_guard lock(mutex_);
  const auto rest = std::ranges::remove(latest_first_, &channel);
  std::ranges::fill(rest, nullptr);
}

}  // namespace hymn
