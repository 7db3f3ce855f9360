#include "runtime/call_ring.hpp"

#include <new>

namespace hymn {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t CallRing::memory_bytes() { return sizeof(Memory); }

CallRing CallRing::create(std::span<std::byte> memory) {
  return CallRing(::new (static_cast<void*>(memory.data())) Memory());
}

CallRing CallRing::attach(std::span<std::byte> memory) {
  return CallRing(std::launder(reinterpret_cast<Memory*>(memory.data())));
}

std::uint64_t CallRing::claim() {
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

void CallRing::fill(std::uint64_t id, const CallRecord& call) {
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

void CallRing::set_state(std::uint64_t record_id, CallState state) {
  Entry& entry = memory_->entries[record_id % entries];
  // Not exchanged in one step, which would cost each call some nanoseconds: a thread that loses its
  // core between the two for as long as the others take to come round makes their record
  // unreadable, never wrong.
  if (entry.state.load(std::memory_order_relaxed) / 4 == record_id)
    entry.state.store(record_id * 4 + static_cast<std::uint64_t>(state), std::memory_order_release);
}

std::uint64_t CallRing::next_id() const { return memory_->next.load(std::memory_order_acquire); }

std::optional<CallRecord> CallRing::read(std::uint64_t record_id) const {
  const Entry& entry = memory_->entries[record_id % entries];
  const std::uint64_t wanted = 2 * (record_id + 1);
  if (entry.version.load(std::memory_order_acquire) != wanted) return std::nullopt;
  std::uint64_t words[6];
  for (std::size_t i = 0; i < std::size(words); ++i)
    words[i] = entry.words[i].load(std::memory_order_acquire);
  const std::uint64_t state = entry.state.load(std::memory_order_acquire);
  if (entry.version.load(std::memory_order_acquire) != wanted || state / 4 != record_id)
    return std::nullopt;
  CallRecord call;
  call.record_id = words[0];
  call.group_uid = words[1];
  call.op_id = words[2];
  call.sequence = words[3];
  call.count = words[4];
  call.type = static_cast<OpType>(words[5] & 0xff);
  call.dtype = static_cast<DataType>((words[5] >> 8) & 0xff);
  call.kind = static_cast<ReduceKind>((words[5] >> 16) & 0xff);
  call.peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[5] >> 32));
  call.state = static_cast<CallState>(state % 4);
  return call;
}

}  // namespace hymn
