// The last calls of a process, in memory that others can read while they are written: what a
// recorder, cross-rank checks and the search for a culprit stand on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>

#include "hymn/request.hpp"

namespace hymn {

enum class CallState : std::uint8_t { scheduled, completed, failed };

/// One call as it was made: who, what, and its place in every count.
struct CallRecord {
  std::uint64_t record_id = 0;  ///< counts the records of this process from 0
  std::uint64_t group_uid = 0;
  std::uint64_t op_id = 0;     ///< counts all operations of the group from 1
  std::uint64_t sequence = 0;  ///< counts collectives, or sends and receives, from 1
  std::uint64_t count = 0;     ///< elements of the input, or of the output where there is none
  OpType type = OpType::barrier;
  DataType dtype = DataType::uint8;
  ReduceKind kind = ReduceKind::sum;
  CallState state = CallState::scheduled;
  std::int32_t peer = -1;  ///< global rank
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

/// A ring of the last `entries` calls in memory given by the owner, who may have mapped it for
/// others to read. It holds no pointers. Any number of threads may write and read at the same time
/// without locks; a reader that meets a half-written record is told so.
class CallRing {
 public:
  static constexpr std::size_t entries = 512;
  /// Bytes of memory for one ring, aligned to 64.
  static std::size_t memory_bytes();
  /// Whether records may be added by several threads at the same time.
  enum class Writers : std::uint8_t { many, one_at_a_time };
  /// Makes a ring in zeroed memory.
  static CallRing create(std::span<std::byte> memory, Writers writers = Writers::many);
  /// Looks at a ring that somebody else writes.
  static CallRing attach(std::span<std::byte> memory);

  /// Adds a record and returns its id.
  std::uint64_t record(const CallRecord& call) {
    const std::uint64_t id = claim();
    fill(id, call);
    return id;
  }
  /// The same in two parts, for a caller that has something urgent to do in between: the first
  /// takes an id and its place, with locked instructions where there are many writers; the second
  /// only stores. Every claim is filled.
  std::uint64_t claim();
  void fill(std::uint64_t record_id, const CallRecord& call);
  /// Sets the state of a record that has not been overwritten yet.
  void set_state(std::uint64_t record_id, CallState state);
  /// How many records were ever added.
  std::uint64_t next_id() const;
  /// Empty when the record was overwritten, is being written, or never was.
  std::optional<CallRecord> read(std::uint64_t record_id) const;

 private:
  // Six words and a version: odd while it is being written, else 2 * (id + 1).
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> version;
    std::atomic<std::uint64_t> words[6];
    std::atomic<std::uint64_t>
        state;  ///< id * 4 + state, so that a late writer cannot hit another record
  };
  struct Memory {
    alignas(64) std::atomic<std::uint64_t> next;
    Entry entries[CallRing::entries];
  };
  CallRing(Memory* memory, Writers writers) : memory_(memory), writers_(writers) {}

  Memory* memory_;
  Writers writers_;
};

// In the header because every call makes all three.

inline std::uint64_t CallRing::claim() {
  if (writers_ == Writers::one_at_a_time) {
    const std::uint64_t id = memory_->next.load(std::memory_order_relaxed);
    memory_->entries[id % entries].version.store(2 * id + 1, std::memory_order_relaxed);
    memory_->next.store(id + 1, std::memory_order_release);
    return id;
  }
  const std::uint64_t id = memory_->next.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = memory_->entries[id % entries];
  std::uint64_t seen = entry.version.load(std::memory_order_relaxed);
  // A writer that lost its core for as long as the others took to come round finds the entry taken,
  // or is found in it: one of the two records is lost, but none is torn.
  while (seen % 2 == 0 && seen <= 2 * id &&
         !entry.version.compare_exchange_weak(seen, 2 * id + 1, std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
  }
  return id;
}

inline void CallRing::fill(std::uint64_t id, const CallRecord& call) {
  Entry& entry = memory_->entries[id % entries];
  if (entry.version.load(std::memory_order_relaxed) != 2 * id + 1) return;  // lost: see claim()
  // Release on every word: a reader that sees a new word also sees the odd version before it, and
  // so rejects what it read. On common processors these are plain stores.
  const std::uint64_t kinds =
      static_cast<std::uint64_t>(call.type) | static_cast<std::uint64_t>(call.dtype) << 8 |
      static_cast<std::uint64_t>(call.kind) << 16 |
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.peer)) << 32;
  const std::uint64_t words[] = {id, call.group_uid, call.op_id, call.sequence, call.count, kinds};
  for (std::size_t i = 0; i < std::size(words); ++i)
    entry.words[i].store(words[i], std::memory_order_release);
  entry.state.store(id * 4 + static_cast<std::uint64_t>(call.state), std::memory_order_release);
  entry.version.store(2 * (id + 1), std::memory_order_release);
}

inline void CallRing::set_state(std::uint64_t record_id, CallState state) {
  Entry& entry = memory_->entries[record_id % entries];
  // Not exchanged in one step, which would cost each call some nanoseconds: a thread that loses its
  // core between the two for as long as the others take to come round makes their record
  // unreadable, never wrong.
  if (entry.state.load(std::memory_order_relaxed) / 4 == record_id)
    entry.state.store(record_id * 4 + static_cast<std::uint64_t>(state), std::memory_order_release);
}

}  // namespace hymn
