#include "p2p/shm/channel.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/waiter.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr std::uint32_t not_aborted = 0;
constexpr std::uint32_t writing_reason = 1;
constexpr std::uint32_t reason_written = 2;

}  // namespace

ShmChannel::ShmChannel(std::unique_ptr<SharedRegion> region, std::vector<int> members,
                       bool oversubscribed, int control_block,
                       std::function<void(const std::string&)> warn)
    : region_(std::move(region)),
      members_(std::move(members)),
      oversubscribed_(oversubscribed),
      control_block_(control_block),
      my_calls_(this->control_block(region_->me()).calls),
      usable_(region_->plan().areas(), unknown_bytes),
      warn_(std::move(warn)) {
  if (region_->plan().areas() > ControlBlock::most_areas)
    throw std::logic_error("a region has more areas than a control block has room for");
  // So that publish() comes to wake_all(): a simulation is told of all that is shown.
  if (simulated_schedule() != nullptr) [[unlikely]]
    common().sleepers.fetch_add(1, std::memory_order_relaxed);
}

ShmChannel::~ShmChannel() = default;

int ShmChannel::add_control_block(RegionPlan& plan) {
  return plan.add(sizeof(ControlBlock), RegionPlan::Reserve::at_once);
}

int ShmChannel::find_other(std::uint64_t ticket, std::uint64_t label) const {
  const std::uint64_t mine = call_word(ticket, label);
  for (int member = 0; member < size(); ++member) {
    const std::uint64_t shown =
        control_block(member).calls[ticket % ControlBlock::shown_calls].load(
            std::memory_order_acquire);
    if (shown != mine && shown >> 32 == mine >> 32) return member;
  }
  return -1;
}

void ShmChannel::wake_all() {
  // This member too: another thread of its may sleep for what this one has brought.
  for (int member = 0; member < size(); ++member) {
    ControlBlock& other = control_block(member);
    if (other.asleep.load(std::memory_order_seq_cst) == 0) continue;
    other.bell.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(&other.bell);
  }
  show_to_schedule();
}

// Seen by publish() before the flag that is looked at once more afterwards, or the flag is seen by
// that look.
unsigned ShmChannel::begin_park() {
  ControlBlock& mine = control_block(rank());
  const unsigned seen = mine.bell.load(std::memory_order_seq_cst);
  mine.asleep.fetch_add(1, std::memory_order_seq_cst);
  common().sleepers.fetch_add(1, std::memory_order_seq_cst);
  return seen;
}

void ShmChannel::sleep(unsigned seen, long nanoseconds) {
  if (WaitingThread::gives_turn(nanoseconds)) [[unlikely]]
    return;
  futex_wait(&control_block(rank()).bell, seen, nanoseconds);
}

void ShmChannel::end_park() {
  common().sleepers.fetch_sub(1, std::memory_order_seq_cst);
  control_block(rank()).asleep.fetch_sub(1, std::memory_order_seq_cst);
}

// The others read it while they wait: it is written only when it changes.
void ShmChannel::note_core_now() {
  std::atomic<int>& core = control_block(rank()).core;
  const int now = sched_getcpu() + 1;
  if (core.load(std::memory_order_relaxed) != now) core.store(now, std::memory_order_relaxed);
}

std::size_t ShmChannel::reserve_own(int area) {
  const SharedRegion::Reserved reserved = region_->reserve(area);
  if (!reserved.shortage.empty()) warn_(reserved.shortage);
  return reserved.bytes;
}

std::size_t ShmChannel::find_usable_bytes(int area) {
  const auto index = static_cast<std::size_t>(area);
  std::atomic<std::uint64_t>& mine = control_block(rank()).reserved[index];
  if (mine.load(std::memory_order_relaxed) == 0) {
    publish<std::uint64_t>(mine, reserve_own(area) + 1);
  }
  std::uint64_t least = UINT64_MAX;
  for (int member = 0; member < size(); ++member) {
    const std::uint64_t said =
        control_block(member).reserved[index].load(std::memory_order_acquire);
    if (said == 0) return unknown_bytes;
    least = std::min(least, said);
  }
  usable_[index] = static_cast<std::size_t>(least - 1);
  return usable_[index];
}

void ShmChannel::abort(const std::string& reason) noexcept {
  std::uint32_t expected = not_aborted;
  Common& shared = common();
  if (!shared.aborted.compare_exchange_strong(expected, writing_reason, std::memory_order_acq_rel))
    return;
  const std::size_t length = std::min(reason.size(), sizeof(shared.reason) - 1);
  std::memcpy(shared.reason, reason.data(), length);
  shared.reason[length] = '\0';
  shared.aborted.store(reason_written, std::memory_order_seq_cst);
  wake_all();
}

void ShmChannel::throw_aborted() const {
  // Whoever writes the reason may die of it: do not wait for ever.
  for (int turn = 0; turn < 1000; ++turn) {
    if (common().aborted.load(std::memory_order_acquire) == reason_written)
      throw AbortedError(common().reason);
    std::this_thread::yield();
  }
  throw AbortedError("a member of the group has given up");
}

bool park_on(ShmChannel& channel, Operation& operation, long nanoseconds) {
  struct ParkGuard {
    ShmChannel& channel;
    unsigned seen;
    explicit ParkGuard(ShmChannel& c) : channel(c), seen(c.begin_park()) {}
    ~ParkGuard() { channel.end_park(); }
  } const bed(channel);
  if (operation.step()) return true;
  channel.sleep(bed.seen, nanoseconds);
  return false;
}

}  // namespace hymn
