#include "collectives/shm/direct_board.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "hymn/error.hpp"

namespace hymn {

DirectBoard::DirectBoard(std::shared_ptr<ShmChannel> channel, int area)
    : channel_(std::move(channel)),
      area_(area),
      peers_(static_cast<std::size_t>(channel_->size())) {}

bool DirectBoard::meets(const DirectCall& mine) {
  if (closed_) return false;
  std::atomic<std::uint64_t>& since = desk(me()).since;
  const bool has_some = mine.input.token != 0 || mine.output.token != 0;
  // Seen by all at the end of that round, for they wait for flags that are set after this.
  if (has_some && since.load(std::memory_order_relaxed) == 0)
    since.store(rounds_ + 1, std::memory_order_release);
  for (int member = 0; member < size(); ++member) {
    const std::uint64_t from = desk(member).since.load(std::memory_order_acquire);
    if (from == 0 || from > rounds_) return false;
  }
  return true;
}

template <class Reached>
bool DirectBoard::all(Reached reached) {
  for (; seen_ < size(); ++seen_)
    if (seen_ != me() && !reached(desk(seen_))) return false;
  seen_ = 0;
  return true;
}

void DirectBoard::show(const DirectCall& mine) {
  Desk& own = desk(me());
  own.call = mine;
  for (std::size_t member = 0; member < peers_.size(); ++member)
    own.known[member] = peers_[member].known;
  channel_->publish(own.shown, ++meetings_);
}

bool DirectBoard::all_have_shown() {
  return all([this](const Desk& other) {
    return other.shown.load(std::memory_order_acquire) >= meetings_;
  });
}

bool DirectBoard::all_can() const {
  for (int member = 0; member < size(); ++member)
    if (shown(member).usable == 0) return false;
  return true;
}

bool DirectBoard::all_know() const {
  for (int member = 0; member < size(); ++member)
    for (int owner = 0; owner < size(); ++owner) {
      if (owner == member) continue;
      const auto& tokens = desk(member).known[owner].tokens;
      for (const HeapPlace* place : {&shown(owner).input, &shown(owner).output})
        if (place->token != 0 && place->token != tokens[0] && place->token != tokens[1])
          return false;
    }
  return true;
}

// In the place of one that this call does not need.
void DirectBoard::map_one(Peer& peer, const HeapPlace& place, const HeapPlace& other) {
  auto& tokens = peer.known.tokens;
  if (place.token == 0 || place.token == tokens[0] || place.token == tokens[1]) return;
  const std::size_t free = other.token != 0 && other.token == tokens[0] ? 1 : 0;
  peer.mappings[free] = SharedHeap::of_process().map(place);
  tokens[free] = place.token;
}

void DirectBoard::map() {
  bool good = true;
  try {
    for (int member = 0; member < size(); ++member) {
      if (member == me()) continue;
      const DirectCall& call = shown(member);
      map_one(peers_[static_cast<std::size_t>(member)], call.input, call.output);
      map_one(peers_[static_cast<std::size_t>(member)], call.output, call.input);
    }
  } catch (const Error&) {
    good = false;
  }
  channel_->publish<std::uint64_t>(desk(me()).mapped, 2 * meetings_ + (good ? 1 : 0));
}

bool DirectBoard::all_have_mapped() {
  return all([this](const Desk& other) {
    return other.mapped.load(std::memory_order_acquire) / 2 >= meetings_;
  });
}

bool DirectBoard::went_well() {
  for (int member = 0; member < size(); ++member)
    if (desk(member).mapped.load(std::memory_order_relaxed) % 2 == 0) closed_ = true;
  return !closed_;
}

std::byte* DirectBoard::address(int member, const HeapPlace& place) const {
  const Peer& peer = peers_[static_cast<std::size_t>(member)];
  const std::size_t which = peer.known.tokens[0] == place.token ? 0 : 1;
  return peer.mappings[which]->base() + place.offset;
}

void DirectBoard::leave() { channel_->publish(desk(me()).left, meetings_); }

bool DirectBoard::all_have_left() {
  return all([this](const Desk& other) {
    return other.left.load(std::memory_order_acquire) >= meetings_;
  });
}

// Either this member sees that somebody has given up, or that one sees this member's touch: each
// writes its own word before it reads the other's.
DirectBoard::Touch::Touch(const DirectBoard& board) : board_(board) {
  std::atomic<std::uint32_t>& touching = board_.desk(board_.me()).touching;
  touching.store(1, std::memory_order_seq_cst);
  if (board_.desk(0).ended.load(std::memory_order_seq_cst) == 0) return;
  touching.store(0, std::memory_order_release);
  board_.channel_->throw_if_aborted();
  throw AbortedError("a member of the group has given up");
}

bool DirectBoard::is_touched(By whom) const {
  for (int member = 0; member < size(); ++member) {
    const bool here = shown(member).pid == shown(me()).pid;
    if (member != me() && here == (whom == By::this_process) &&
        desk(member).touching.load(std::memory_order_seq_cst) != 0)
      return true;
  }
  return false;
}

void DirectBoard::give_up(std::byte* output, std::size_t bytes) noexcept {
  desk(0).ended.store(1, std::memory_order_seq_cst);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  // Who is at it takes well below a millisecond, unless it has been stopped, or killed. Threads of
  // this process cannot be cut off, but do not die alone either.
  auto limit = now() + std::chrono::milliseconds(300);
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); };
  while (is_touched(By::this_process)) pause();
  while (is_touched(By::another_process)) {
    pause();
    if (now() < limit) continue;
    try {
      SharedHeap::of_process().detach(output, bytes);
      return;
    } catch (const std::exception&) {
      // No memory for that: there may be some later, or the other goes on.
      limit = now() + std::chrono::seconds(1);
    }
  }
}

}  // namespace hymn
