#include "collectives/shm/direct_board.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <thread>

#include "base/log.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

/// A random number, another one for each process: in different PID namespaces several may have the
/// same one of the system's.
std::uint64_t token_of_process() {
  static std::mutex mutex;
  static std::uint64_t token = 0;
  static pid_t owner = -1;
  const std::lock_guard lock(mutex);
  if (owner != getpid()) {
    std::random_device random;
    token = std::uint64_t{random()} << 32 | random();
    owner = getpid();
  }
  return token;
}

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

void warn_of_writer(std::size_t bytes) noexcept {
  try {
    Logger().warning(
        fmt::format("a process that does not respond may still write to {} bytes of a buffer from "
                    "hymn::allocate, and there is too little memory to detach it",
                    bytes));
  } catch (const std::exception&) {
    // Memory is short, as it says.
  }
}

}  // namespace

DirectBoard::DirectBoard(std::shared_ptr<ShmChannel> channel, int area)
    : channel_(std::move(channel)),
      area_(area),
      peers_(static_cast<std::size_t>(channel_->size())) {
  control_block(me()).process.store(token_of_process(), std::memory_order_relaxed);
}

bool DirectBoard::meets(const DirectCall& mine) {
  if (closed_) return false;
  std::atomic<std::uint64_t>& since = control_block(me()).since;
  const bool has_some = mine.input.token != 0 || mine.output.token != 0;
  // Seen by all at the end of that round, for they wait for flags that are set after this.
  if (has_some && since.load(std::memory_order_relaxed) == 0)
    since.store(rounds_ + 1, std::memory_order_release);
  for (int member = 0; member < size(); ++member) {
    const std::uint64_t from = control_block(member).since.load(std::memory_order_acquire);
    if (from == 0 || from > rounds_) return false;
  }
  return true;
}

template <class Reached>
bool DirectBoard::all(Reached reached) {
  for (; seen_ < size(); ++seen_)
    if (seen_ != me() && !reached(control_block(seen_))) return false;
  seen_ = 0;
  return true;
}

void DirectBoard::show(const DirectCall& mine) {
  ControlBlock& own = control_block(me());
  own.call = mine;
  for (std::size_t member = 0; member < peers_.size(); ++member)
    own.known[member] = peers_[member].known;
  channel_->publish(own.shown, ++meetings_);
}

bool DirectBoard::all_have_shown() {
  return all([this](const ControlBlock& other) {
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
      const auto& tokens = control_block(member).known[owner].tokens;
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
  channel_->publish<std::uint64_t>(control_block(me()).mapped, 2 * meetings_ + (good ? 1 : 0));
}

bool DirectBoard::all_have_mapped() {
  return all([this](const ControlBlock& other) {
    return other.mapped.load(std::memory_order_acquire) / 2 >= meetings_;
  });
}

bool DirectBoard::went_well() {
  for (int member = 0; member < size(); ++member)
    if (control_block(member).mapped.load(std::memory_order_relaxed) % 2 == 0) closed_ = true;
  return !closed_;
}

std::byte* DirectBoard::address(int member, const HeapPlace& place) const {
  const Peer& peer = peers_[static_cast<std::size_t>(member)];
  const std::size_t which = peer.known.tokens[0] == place.token ? 0 : 1;
  return peer.mappings[which]->base() + place.offset;
}

void DirectBoard::leave() {
  // After all that has been read, see give_up().
  std::atomic_thread_fence(std::memory_order_acquire);
  if (has_ended()) throw_ended();
  channel_->publish(control_block(me()).left, meetings_);
}

bool DirectBoard::all_have_left() {
  return all([this](const ControlBlock& other) {
    return other.left.load(std::memory_order_acquire) >= meetings_;
  });
}

void DirectBoard::throw_ended() const {
  channel_->throw_if_aborted();
  throw AbortedError("a member of the group has given up");
}

// Either this member sees that somebody has given up, or that one sees this member's touch: each
// writes its own word before it reads the other's.
DirectBoard::Touch::Touch(const DirectBoard& board) : board_(board) {
  board_.control_block(board_.me()).touching.store(1, std::memory_order_seq_cst);
  if (!board_.has_ended()) return;
  board_.stop_touching();
  board_.throw_ended();
}

bool DirectBoard::is_touched(By whom) const {
  const std::uint64_t mine = control_block(me()).process.load(std::memory_order_relaxed);
  for (int member = 0; member < size(); ++member) {
    const bool here = control_block(member).process.load(std::memory_order_relaxed) == mine;
    if (member != me() && here == (whom == By::this_process) &&
        control_block(member).touching.load(std::memory_order_seq_cst) != 0)
      return true;
  }
  return false;
}

bool DirectBoard::is_left_alone_within(std::chrono::milliseconds patience) const {
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (is_touched(By::another_process)) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    nap();
  }
  return true;
}

void DirectBoard::give_up(std::byte* output, std::size_t bytes) noexcept {
  control_block(0).ended.store(1, std::memory_order_seq_cst);
  // Whoever reads what is written to the buffers from now on sees that this has ended, see leave().
  std::atomic_thread_fence(std::memory_order_release);
  // Threads of this process cannot be cut off, but do not die alone either.
  while (is_touched(By::this_process)) nap();
  // Who is at it takes well below a millisecond, unless it has been stopped, or killed.
  auto patience = std::chrono::milliseconds(300);
  for (int turn = 0; turn < 4; ++turn) {
    if (is_left_alone_within(patience)) return;
    try {
      const std::size_t cut_off = SharedHeap::of_process().detach(output, bytes);
      output += cut_off;
      bytes -= cut_off;
    } catch (const std::exception&) {
      // As where there is too little memory: there may be some later, or the other goes on.
    }
    if (bytes == 0) return;
    patience = std::chrono::seconds(1);
  }
  warn_of_writer(bytes);
}

}  // namespace hymn
