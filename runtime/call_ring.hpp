// The last calls of a process, in memory that others can read while they are written: what a
// recorder, cross-rank checks and the search for a culprit stand on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  /// Makes a ring in zeroed memory.
  static CallRing create(std::span<std::byte> memory);
  /// Looks at a ring that somebody else writes.
  static CallRing attach(std::span<std::byte> memory);

  /// Adds a record and returns its id.
  std::uint64_t record(const CallRecord& call) {
    const std::uint64_t id = claim();
    fill(id, call);
    return id;
  }
  /// The same in two parts, for a caller that has something urgent to do in between: the first
  /// takes an id, and with locked instructions its place; the second only stores. Every claim is
  /// filled.
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
  explicit CallRing(Memory* memory) : memory_(memory) {}

  Memory* memory_;
};

}  // namespace hymn
