// What has passed over a communicator, as one member counts it.
//
// A communicator tells messages of its group from all others, for as long as it is one group's.
// Before another may have it, nothing of the old one may be in it: no message that was sent and not
// received, and no part of a collective that not all members called. That can be seen from what the
// members have counted: none receives more than was sent to it, so that all has been received where
// the sums of both are equal.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace hymn {

/// Thread-safe.
class MpiTraffic {
 public:
  explicit MpiTraffic(std::size_t members) : sent_to_(members) {}

  void note_sent(int peer) {
    sent_to_[static_cast<std::size_t>(peer)].fetch_add(1, std::memory_order_relaxed);
  }
  void note_received(std::uint64_t messages) {
    received_.fetch_add(messages, std::memory_order_relaxed);
  }
  /// A collective of MPI's: `word` is what all members must call alike for MPI to take no message
  /// of one call for another's. Collectives are called in one order.
  void note_collective(std::uint64_t word) {
    const std::uint64_t before = collectives_.load(std::memory_order_relaxed);
    collectives_.store(mixed(before ^ word), std::memory_order_relaxed);
  }
  /// A call of MPI's has failed: nobody knows what it has left.
  void spoil() { spoilt_.store(true, std::memory_order_relaxed); }

  std::uint64_t sent() const {
    std::uint64_t all = 0;
    for (const auto& to_one : sent_to_) all += to_one.load(std::memory_order_relaxed);
    return all;
  }
  std::uint64_t sent_to(std::size_t peer) const {
    return sent_to_[peer].load(std::memory_order_relaxed);
  }
  std::size_t members() const { return sent_to_.size(); }
  std::uint64_t received() const { return received_.load(std::memory_order_relaxed); }
  /// The same on all members that have called the same collectives.
  std::uint64_t collectives() const { return collectives_.load(std::memory_order_relaxed); }
  bool is_spoilt() const { return spoilt_.load(std::memory_order_relaxed); }

  static std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return (bits ^ bits >> 31) + 0x9e3779b97f4a7c15;
  }

 private:
  std::vector<std::atomic<std::uint64_t>> sent_to_;
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::uint64_t> collectives_{0};
  std::atomic<bool> spoilt_{false};
};

}  // namespace hymn
