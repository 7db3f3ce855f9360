#include "runtime/call_ring.hpp"

#include <new>

namespace hymn {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t CallRing::memory_bytes() { return sizeof(Memory); }

CallRing CallRing::create(std::span<std::byte> memory, Writers writers) {
  return CallRing(::new (static_cast<void*>(memory.data())) Memory(), writers);
}

CallRing CallRing::attach(std::span<std::byte> memory) {
  return CallRing(std::launder(reinterpret_cast<Memory*>(memory.data())), Writers::many);
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
