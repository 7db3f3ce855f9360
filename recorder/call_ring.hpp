// The last calls of a process, in memory that others can read while they are written: what the
// flight recorder, cross-rank checks and the search for a culprit stand on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/private.hpp"
#include "recorder/call_record.hpp"
#include "recorder/sole_writer.hpp"
#include "recorder/stamp.hpp"

namespace hymn {

/// A ring of the last calls in memory given by the owner, who may have mapped it for others to
/// read. It holds no pointers. Any number of threads may write and read at the same time without
/// locks; a reader that meets a half-written record is told so. Without entries nothing is
/// recorded.
class CallRing {
 public:
  /// What a ring holds. `frames`: return addresses kept of each call, beside its call site.
  /// `counts`: sizes of blocks kept of each call, of both sides together.
  struct Size {
    std::size_t entries = 512;
    std::size_t frames = 0;
    std::size_t counts = 0;
  };
  /// Bytes of memory for one ring, aligned to 64.
  static std::size_t memory_bytes(Size size);
  /// Whether records may be added by several threads at the same time.
  enum class Writers : std::uint8_t { many, one_at_a_time };
  /// Makes a ring.
  static CallRing create(std::span<std::byte> memory, Size size, Writers writers = Writers::many);
  /// Looks at a ring that somebody else writes. Only reads may be asked of it.
  static CallRing attach(std::span<const std::byte> memory, Size size);

  bool is_on() const { return mask_ != off; }
  std::size_t entries() const { return size_.entries; }
  std::size_t frames() const { return size_.frames; }
  std::size_t counts() const { return size_.counts; }
  /// Whether the start of operations is recorded, too.
  bool timing() const { return memory_->timing.load(std::memory_order_relaxed) != 0; }
  void set_timing(bool on) { memory_->timing.store(on ? 1 : 0, std::memory_order_relaxed); }

  /// Adds a record and returns its id.
  std::uint64_t record(const CallRecord& call);
  /// The same in two parts, for a caller that has something urgent to do in between: the first
  /// takes an id and its place, with locked instructions once several threads have called; the
  /// second only stores. Every claim is filled.
  std::uint64_t claim();
  /// Between the two, for a call whose blocks have sizes of their own, or its buffers shapes: keeps
  /// these, or that there are more than there is room for.
  void keep_sizes(std::uint64_t record_id, const Request& request);
  /// `call` says when it was created and, if that is known by now, started; and what will not
  /// change.
  void fill(std::uint64_t record_id, const CallRecord& call);
  // The news of a record; what has been overwritten is left alone.
  void set_started(std::uint64_t record_id);
  /// When an operation has ended. To read the time costs about as much as all else of a record, so
  /// it is not read for one that took less than a few microseconds, unless times are asked for.
  enum class Ended : std::uint8_t { now, at_once };
  /// It has completed or failed, now or as soon as it was created.
  void set_ended(std::uint64_t record_id, CallState state, bool retired, Ended when = Ended::now);
  /// At a time that the caller has read.
  void set_ended_at(std::uint64_t record_id, CallState state, bool retired, std::uint64_t stamp);
  /// Nothing of it is in flight any more.
  void set_retired(std::uint64_t record_id);
  /// Whether a thread waits in it, while it has not ended.
  void set_waited_for(std::uint64_t record_id, bool waited_for);
  /// Whether nothing has moved it on for a while, while it has not ended.
  void set_undriven(std::uint64_t record_id, bool undriven);

  /// How many records were ever added.
  std::uint64_t next_id() const;
  /// The oldest record that may still be there.
  std::uint64_t first_id() const;
  /// Whether it was claimed, and neither filled yet nor overwritten.
  bool is_being_written(std::uint64_t record_id) const {
    return is_on() &&
           entry_of(record_id).version.load(std::memory_order_acquire) == 2 * record_id + 1;
  }
  /// Empty when the record was overwritten, is being written, or never was. `frames` receives the
  /// return addresses of the call, innermost first; `counts` the sizes of its blocks and `shapes`
  /// the dimensions of its buffers, empty where they are not kept.
  std::optional<CallRecord> read(std::uint64_t record_id,
                                 std::vector<std::uint64_t>* frames = nullptr,
                                 BlockCounts* counts = nullptr, CallShapes* shapes = nullptr) const;

 private:
  static constexpr std::size_t word_count = 12;
  static constexpr std::uint64_t off = ~std::uint64_t{0};
  // A version: odd while it is being written, else 2 * (id + 1). The three words at the end change
  // after that, and tell whose they are, so that a late writer cannot change another record: the
  // state is a StateWord; the times are ticks since the creation, with the number of the ring's
  // round in the lowest bits. Until it has ended, `completed` tells since when a thread waits in
  // it, where one has come later (waited_later).
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> version;
    std::atomic<std::uint64_t> words[word_count];
    std::atomic<std::uint64_t> state;
    std::atomic<std::uint64_t> started;
    std::atomic<std::uint64_t> completed;
  };
  struct StateWord {
    static constexpr std::uint64_t retired = 1;
    static constexpr std::uint64_t unattended = 8;  ///< no thread waits in it
    static constexpr std::uint64_t undriven = 16;
    static constexpr std::uint64_t waited_later = 32;  ///< a thread has come to wait since
    static constexpr unsigned id_shift = 6;
    static constexpr std::uint64_t of(std::uint64_t id, CallState state, std::uint64_t flags) {
      return id << id_shift | static_cast<std::uint64_t>(state) << 1 | flags;
    }
    static constexpr std::uint64_t id_of(std::uint64_t word) { return word >> id_shift; }
    static constexpr CallState state_of(std::uint64_t word) {
      return static_cast<CallState>(word >> 1 & 3);
    }
  };
  /// How many there are: of the input's blocks, of the output's, and words of shapes.
  struct SizesWord {
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::size_t shapes = 0;
    bool same = false;  ///< the output's are the input's, and kept once

    static SizesWord of(std::uint64_t word) {
      return {word & 0xffff, word >> 16 & 0xffff, word >> 32 & 0xff'ffff, word >> 63 != 0};
    }
    std::uint64_t packed() const {
      return inputs | outputs << 16 | shapes << 32 | std::uint64_t{same} << 63;
    }
    std::size_t words() const { return inputs + outputs + shapes; }
  };
  static constexpr std::size_t created_word = 10;
  static constexpr unsigned round_bits = 12;
  struct Memory {
    alignas(64) std::atomic<std::uint64_t> next;
    std::atomic<std::uint64_t> timing;
    SoleWriter sole;
  };
  static constexpr std::uint64_t unrecorded = ~std::uint64_t{0} >> StateWord::id_shift;

  CallRing(Memory* memory, Size size, Writers writers);
  std::uint64_t claim_alone();
  HYMN_PRIVATE std::uint64_t claim_among_others();
  /// Beside other news, which this must not undo.
  void change_flags(std::uint64_t record_id, std::uint64_t set, std::uint64_t cleared);
  Entry& entry_of(std::uint64_t id) const { return first_entry_[id & mask_]; }
  std::atomic<std::uint64_t>* frames_of(std::uint64_t id) const {
    return first_frame_ + (id & mask_) * size_.frames;
  }
  /// A SizesWord; then the sizes of the input's blocks, those of the output's, and for each buffer
  /// of the input, and of the output, the number of its dimensions and these.
  std::atomic<std::uint64_t>* counts_of(std::uint64_t id) const {
    return first_count_ + (id & mask_) * words_of_counts(size_);
  }
  static std::size_t words_of_counts(Size size) { return size.counts == 0 ? 0 : size.counts + 1; }
  std::uint64_t round_of(std::uint64_t id) const {
    return (id >> round_shift_) & ((1u << round_bits) - 1);
  }
  std::uint64_t passed(std::uint64_t from, std::uint64_t to, std::uint64_t id) const {
    constexpr std::uint64_t longest = (std::uint64_t{1} << (64 - round_bits)) - 1;
    const std::uint64_t ticks = to > from ? to - from : 1;
    return (ticks < longest ? ticks : longest) << round_bits | round_of(id);
  }
  /// Ticks since the entry's creation until now, for the record with this id.
  std::uint64_t since_creation(const Entry& entry, std::uint64_t id) const {
    return passed(entry.words[created_word].load(std::memory_order_relaxed), time_stamp(), id);
  }
  static std::size_t slots_of(Size size);
  HYMN_PRIVATE void store_frames(std::uint64_t id, std::uint64_t site);
  void read_sizes(std::uint64_t id, const CallRecord& call, BlockCounts& counts,
                  CallShapes& shapes) const;
  std::uint64_t stamp_of(std::uint64_t word, std::uint64_t id, std::uint64_t created) const;

  Memory* memory_;
  Entry* first_entry_;
  std::atomic<std::uint64_t>* first_frame_;
  std::atomic<std::uint64_t>* first_count_;
  std::uint64_t mask_;  // a power of two of entries, at least size_.entries; less one
  unsigned round_shift_;
  Size size_;
  Writers writers_;
};

// In the header because every call makes all of them.

inline std::uint64_t CallRing::claim() {
  if (!is_on()) return 0;
  if (writers_ == Writers::one_at_a_time) return claim_alone();
  if (!memory_->sole.try_enter()) return claim_among_others();
  const std::uint64_t id = claim_alone();
  memory_->sole.leave();
  return id;
}

inline std::uint64_t CallRing::claim_alone() {
  const std::uint64_t id = memory_->next.load(std::memory_order_relaxed);
  entry_of(id).version.store(2 * id + 1, std::memory_order_relaxed);
  memory_->next.store(id + 1, std::memory_order_release);
  return id;
}

HYMN_INLINE void CallRing::fill(std::uint64_t id, const CallRecord& call) {
  if (!is_on()) return;
  Entry& entry = entry_of(id);
  if (entry.version.load(std::memory_order_relaxed) != 2 * id + 1) return;  // lost: see claim()
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t kinds = number(call.type) | number(call.kind) << 8 |
                              number(call.own_bundles) << 14 | number(call.given_blocks) << 15 |
                              number(call.input.dtype) << 16 | number(call.output.dtype) << 24 |
                              number(static_cast<std::uint32_t>(call.peer)) << 32;
  const auto form = [&](const CallSide& side) {
    return number(side.layout) | number(side.dimensions) << 3 | number(side.even) << 5 |
           number(side.buffers) << 6;
  };
  const auto shape = [&](const CallSide& side) {
    return number(side.shape[0]) | number(side.shape[1]) << 32;
  };
  // Release on every word: a reader that sees a new word also sees the odd version before it, and
  // so rejects what it read. On common processors these are plain stores.
  const auto put = [&entry](auto... words) {
    static_assert(sizeof...(words) == word_count);
    std::size_t place = 0;
    (entry.words[place++].store(words, std::memory_order_release), ...);
  };
  put(call.group_uid, call.op_id, call.sequence, kinds, call.input.count, call.output.count,
      form(call.input) | form(call.output) << 22 | number(call.method) << 44 |
          number(call.shadowed) << 60 | number(call.on_gpu) << 61 | number(call.coalesced) << 62 |
          number(call.own_shapes) << 63,
      shape(call.input), shape(call.output), number(call.timeout_ns), call.created, call.site);
  entry.started.store(call.started == 0 ? round_of(id) : passed(call.created, call.started, id),
                      std::memory_order_release);
  entry.completed.store(round_of(id), std::memory_order_release);
  entry.state.store(StateWord::of(id, call.state, call.waited_for ? 0 : StateWord::unattended),
                    std::memory_order_release);
  if (size_.frames != 0) [[unlikely]]
    store_frames(id, call.site);
  entry.version.store(2 * (id + 1), std::memory_order_release);
}

HYMN_INLINE std::uint64_t CallRing::record(const CallRecord& call) {
  const std::uint64_t id = claim();
  fill(id, call);
  return id;
}

// News are not exchanged in one step, which would cost each call some nanoseconds: a thread that
// loses its core between looking and storing for as long as the others take to come round makes
// their record unreadable, never wrong.

inline void CallRing::set_started(std::uint64_t id) {
  if (!is_on()) return;
  Entry& entry = entry_of(id);
  const std::uint64_t state = entry.state.load(std::memory_order_relaxed);
  if (StateWord::id_of(state) != id) return;
  entry.started.store(since_creation(entry, id), std::memory_order_release);
  constexpr std::uint64_t kept = StateWord::unattended | StateWord::waited_later;
  entry.state.store(StateWord::of(id, CallState::started, state & kept), std::memory_order_release);
}

inline void CallRing::set_ended(std::uint64_t id, CallState state, bool retired, Ended when) {
  if (is_on()) set_ended_at(id, state, retired, when == Ended::now ? time_stamp() : 0);
}

inline void CallRing::set_ended_at(std::uint64_t id, CallState state, bool retired,
                                   std::uint64_t stamp) {
  if (!is_on()) return;
  Entry& entry = entry_of(id);
  const std::uint64_t seen = entry.state.load(std::memory_order_relaxed);
  if (StateWord::id_of(seen) != id) return;
  const std::uint64_t created = entry.words[created_word].load(std::memory_order_relaxed);
  entry.completed.store(passed(created, stamp, id), std::memory_order_release);
  const std::uint64_t flags = (retired ? StateWord::retired : 0) | (seen & StateWord::unattended);
  entry.state.store(StateWord::of(id, state, flags), std::memory_order_release);
}

inline void CallRing::set_retired(std::uint64_t id) {
  if (!is_on()) return;
  Entry& entry = entry_of(id);
  const std::uint64_t state = entry.state.load(std::memory_order_relaxed);
  if (StateWord::id_of(state) == id)
    entry.state.store(state | StateWord::retired, std::memory_order_release);
}

}  // namespace hymn
