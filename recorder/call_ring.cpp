#include "recorder/call_ring.hpp"

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <span>
#include <utility>

#include "collectives/coalesced_calls.hpp"

namespace hymn {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t CallRing::slots_of(Size size) {
  return size.entries == 0 ? 0 : std::bit_ceil(size.entries);
}

std::size_t CallRing::memory_bytes(Size size) {
  static_assert(sizeof(Entry) == 128);
  return sizeof(Memory) + slots_of(size) * (sizeof(Entry) + (size.frames + words_of_counts(size)) *
                                                                sizeof(std::atomic<std::uint64_t>));
}

CallRing::CallRing(Memory* memory, Size size, Writers writers)
    : memory_(memory),
      first_entry_(std::launder(reinterpret_cast<Entry*>(memory + 1))),
      first_frame_(std::launder(
          reinterpret_cast<std::atomic<std::uint64_t>*>(first_entry_ + slots_of(size)))),
      first_count_(first_frame_ + slots_of(size) * size.frames),
      mask_(size.entries == 0 ? off : slots_of(size) - 1),
      round_shift_(static_cast<unsigned>(std::bit_width(slots_of(size)))),
      size_(size),
      writers_(writers) {
  if (round_shift_ > 0) --round_shift_;
}

CallRing CallRing::create(std::span<std::byte> memory, Size size, Writers writers) {
  std::byte* place = memory.data();
  auto* const head = ::new (static_cast<void*>(place)) Memory();
  place += sizeof(Memory);
  const std::size_t slots = slots_of(size);
  for (std::size_t i = 0; i < slots; ++i, place += sizeof(Entry))
    ::new (static_cast<void*>(place)) Entry();
  const std::size_t words = slots * (size.frames + words_of_counts(size));
  for (std::size_t i = 0; i < words; ++i, place += sizeof(std::uint64_t))
    ::new (static_cast<void*>(place)) std::atomic<std::uint64_t>();
  if (size.frames != 0) {
    // The first time it loads a library, which no call should wait for.
    std::array<void*, 1> none{};
    backtrace(none.data(), 1);
  }
  return CallRing(head, size, writers);
}

CallRing CallRing::attach(std::span<const std::byte> memory, Size size) {
  // Not written: only the writer's calls write, and nobody makes them here.
  auto* const begin = const_cast<std::byte*>(memory.data());
  return CallRing(std::launder(reinterpret_cast<Memory*>(begin)), size, Writers::many);
}

std::uint64_t CallRing::claim_among_others() {
  if (!memory_->sole.end()) return unrecorded;
  const std::uint64_t id = memory_->next.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entry_of(id);
  std::uint64_t seen = entry.version.load(std::memory_order_relaxed);
  // A writer that lost its core for as long as the others took to come round finds the entry taken,
  // or is found in it: one of the two records is lost, but none is torn.
  while (seen % 2 == 0 && seen <= 2 * id &&
         !entry.version.compare_exchange_weak(seen, 2 * id + 1, std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
  }
  return id;
}

std::uint64_t CallRing::next_id() const { return memory_->next.load(std::memory_order_acquire); }

std::uint64_t CallRing::first_id() const {
  const std::uint64_t end = next_id();
  return end > size_.entries ? end - size_.entries : 0;
}

void CallRing::store_frames(std::uint64_t id, std::uint64_t site) {
  constexpr int most = 96;
  std::array<void*, most> found{};
  const int count = backtrace(found.data(), most);
  const auto end = found.begin() + std::max(count, 0);
  // From the user's code on: what hymn does between the call and here says nothing. Where the call
  // site is not among them, it stands alone.
  const auto begin = std::find(found.begin(), end, std::bit_cast<void*>(std::uintptr_t{site}));
  std::atomic<std::uint64_t>* const frames = frames_of(id);
  for (std::size_t i = 0; i < size_.frames; ++i) {
    std::uint64_t address = i == 0 ? site : 0;
    if (static_cast<std::ptrdiff_t>(i) < end - begin)
      address = std::bit_cast<std::uintptr_t>(begin[static_cast<std::ptrdiff_t>(i)]);
    frames[i].store(address, std::memory_order_release);
  }
}

namespace {

using Words = std::vector<std::uint64_t>;

template <class View>
Words words_of_sizes(const Blocks<View>& blocks) {
  if (!has_own_sizes(side_of(blocks))) return {};
  if (blocks.layout() == Layout::counted)
    return Words(blocks.counts().begin(), blocks.counts().end());
  Words words;
  for (const View& view : blocks.views()) words.push_back(view.count);
  return words;
}

/// A flat buffer has one dimension.
template <class View>
Words words_of_shapes(const Blocks<View>& blocks) {
  Words words;
  for (const View& view : blocks.views()) {
    words.push_back(view.shape.empty() ? 1 : view.shape.size());
    if (view.shape.empty()) words.push_back(view.count);
    for (const std::int64_t dimension : view.shape)
      words.push_back(static_cast<std::uint64_t>(dimension));
  }
  return words;
}

std::vector<CallShapes::Shape> read_shapes(std::span<const std::uint64_t>& words,
                                           std::size_t buffers) {
  std::vector<CallShapes::Shape> shapes;
  for (; buffers > 0 && !words.empty() && words.front() < words.size(); --buffers) {
    const auto shape = words.subspan(1, words.front());
    shapes.emplace_back(shape.begin(), shape.end());
    words = words.subspan(shape.size() + 1);
  }
  return shapes;
}

}  // namespace

void CallRing::keep_sizes(std::uint64_t id, const Request& request) {
  if (!is_on() || size_.counts == 0) return;
  if (entry_of(id).version.load(std::memory_order_relaxed) != 2 * id + 1) return;  // lost: claim()
  const bool shaped = has_own_shapes(request.inputs) || has_own_shapes(request.outputs);
  Words inputs = words_of_sizes(request.inputs);
  Words outputs = words_of_sizes(request.outputs);
  Words shapes = shaped ? words_of_shapes(request.inputs) : Words();
  Words more = shaped ? words_of_shapes(request.outputs) : Words();
  SizesWord word{.same = inputs == outputs && shapes == more};
  if (word.same) outputs = more = {};
  // What all members know alike goes first, for by that they are compared: a side that only some of
  // them have must not push it out.
  const auto fits = [&] { return inputs.size() + outputs.size() <= size_.counts; };
  if (!fits() && !word.same) (all_know_outputs(request.type) ? inputs : outputs) = {};
  if (!fits()) inputs = outputs = {};
  shapes.insert(shapes.end(), more.begin(), more.end());
  if (inputs.size() + outputs.size() + shapes.size() > size_.counts) shapes = {};
  word.inputs = inputs.size();
  word.outputs = outputs.size();
  word.shapes = shapes.size();
  std::atomic<std::uint64_t>* to = counts_of(id);
  (to++)->store(word.packed(), std::memory_order_release);
  for (const Words& words : {inputs, outputs, shapes})
    for (const std::uint64_t each : words) (to++)->store(each, std::memory_order_release);
}

void CallRing::read_sizes(std::uint64_t id, const CallRecord& call, BlockCounts& counts,
                          CallShapes& shapes) const {
  const bool is_kept = call.own_shapes || has_own_sizes(call.input) || has_own_sizes(call.output);
  if (!is_kept || size_.counts == 0) return;
  const std::atomic<std::uint64_t>* from = counts_of(id);
  const SizesWord word = SizesWord::of((from++)->load(std::memory_order_acquire));
  if (word.words() > size_.counts) return;
  Words words(word.words());
  for (std::uint64_t& each : words) each = (from++)->load(std::memory_order_acquire);
  std::span<const std::uint64_t> rest = words;
  const auto take = [&rest](std::size_t count) {
    const auto taken = rest.first(count);
    rest = rest.subspan(count);
    return Words(taken.begin(), taken.end());
  };
  counts.input = take(word.inputs);
  counts.output = word.same ? counts.input : take(word.outputs);
  shapes.input = read_shapes(rest, call.input.buffers);
  shapes.output = word.same ? shapes.input : read_shapes(rest, call.output.buffers);
}

std::uint64_t CallRing::stamp_of(std::uint64_t word, std::uint64_t id,
                                 std::uint64_t created) const {
  // Of another round: the news of a record that was here before.
  if ((word & ((1u << round_bits) - 1)) != round_of(id)) return 0;
  const std::uint64_t passed = word >> round_bits;
  return passed == 0 ? 0 : created + passed;
}

void CallRing::set_waited_for(std::uint64_t id, bool waited_for) {
  if (waited_for && is_on()) {
    Entry& entry = entry_of(id);
    const std::uint64_t state = entry.state.load(std::memory_order_acquire);
    if (StateWord::id_of(state) == id && !is_ended(StateWord::state_of(state)))
      entry.completed.store(since_creation(entry, id), std::memory_order_release);
  }
  if (waited_for)
    change_flags(id, StateWord::waited_later, StateWord::unattended);
  else
    change_flags(id, StateWord::unattended, StateWord::waited_later);
}

void CallRing::set_undriven(std::uint64_t id, bool undriven) {
  change_flags(id, undriven ? StateWord::undriven : 0, undriven ? 0 : StateWord::undriven);
}

void CallRing::change_flags(std::uint64_t id, std::uint64_t set, std::uint64_t cleared) {
  if (!is_on()) return;
  Entry& entry = entry_of(id);
  std::uint64_t seen = entry.state.load(std::memory_order_relaxed);
  while (StateWord::id_of(seen) == id) {
    const std::uint64_t next = (seen & ~cleared) | set;
    if (is_ended(StateWord::state_of(seen)) ||
        entry.state.compare_exchange_weak(seen, next, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
      return;
  }
}

std::optional<CallRecord> CallRing::read(std::uint64_t record_id,
                                         std::vector<std::uint64_t>* frames, BlockCounts* counts,
                                         CallShapes* shapes) const {
  if (!is_on() || record_id < first_id()) return std::nullopt;
  const Entry& entry = entry_of(record_id);
  const std::uint64_t wanted = 2 * (record_id + 1);
  if (entry.version.load(std::memory_order_acquire) != wanted) return std::nullopt;
  // The state first: who sees that it has completed sees when.
  const std::uint64_t state = entry.state.load(std::memory_order_acquire);
  const std::uint64_t started = entry.started.load(std::memory_order_acquire);
  const std::uint64_t completed = entry.completed.load(std::memory_order_acquire);
  std::uint64_t words[word_count];
  for (std::size_t i = 0; i < word_count; ++i)
    words[i] = entry.words[i].load(std::memory_order_acquire);
  std::vector<std::uint64_t> addresses;
  if (frames != nullptr) {
    for (std::size_t i = 0; i < size_.frames; ++i) {
      const std::uint64_t address = frames_of(record_id)[i].load(std::memory_order_acquire);
      if (address != 0) addresses.push_back(address);
    }
  }
  CallRecord call;
  call.record_id = record_id;
  call.group_uid = words[0];
  call.op_id = words[1];
  call.sequence = words[2];
  const std::uint64_t kinds = words[3];
  call.type = static_cast<OpType>(kinds & 0xff);
  call.kind = static_cast<ReduceKind>((kinds >> 8) & 0x3f);
  call.peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(kinds >> 32));
  call.method = static_cast<std::uint16_t>(words[6] >> 44);
  call.shadowed = ((words[6] >> 60) & 1) != 0;
  call.on_gpu = ((words[6] >> 61) & 1) != 0;
  call.coalesced = ((words[6] >> 62) & 1) != 0;
  const auto side = [&](CallSide& to, std::uint64_t dtype, std::uint64_t count, std::uint64_t form,
                        std::uint64_t shape) {
    to.dtype = static_cast<DataType>(dtype & 0xff);
    to.count = count;
    to.layout = static_cast<Layout>(form & 7);
    to.dimensions = static_cast<std::uint8_t>((form >> 3) & 3);
    to.even = ((form >> 5) & 1) != 0;
    to.buffers = static_cast<std::uint16_t>((form >> 6) & 0xffff);
    to.shape[0] = static_cast<std::uint32_t>(shape);
    to.shape[1] = static_cast<std::uint32_t>(shape >> 32);
  };
  side(call.input, kinds >> 16, words[4], words[6], words[7]);
  side(call.output, kinds >> 24, words[5], words[6] >> 22, words[8]);
  call.own_bundles = ((kinds >> 14) & 1) != 0;
  call.given_blocks = ((kinds >> 15) & 1) != 0;
  call.own_shapes = words[6] >> 63 != 0;
  BlockCounts sizes;
  CallShapes dimensions;
  if (counts != nullptr || shapes != nullptr) read_sizes(record_id, call, sizes, dimensions);
  if (entry.version.load(std::memory_order_acquire) != wanted ||
      StateWord::id_of(state) != record_id)
    return std::nullopt;

  call.timeout_ns = static_cast<std::int64_t>(words[9]);
  call.created = words[created_word];
  call.site = words[11];
  call.started = stamp_of(started, record_id, call.created);
  call.completed = stamp_of(completed, record_id, call.created);
  call.state = StateWord::state_of(state);
  call.retired = (state & StateWord::retired) != 0;
  call.waited_for = (state & StateWord::unattended) == 0;
  call.undriven = (state & StateWord::undriven) != 0 && !call.waited_for && !is_ended(call.state);
  const bool ended = is_ended(call.state);
  // A stamp that a late writer has spoilt takes its record with it.
  if (call.state == CallState::started && call.started == 0) return std::nullopt;
  if (ended && call.completed == 0) return std::nullopt;
  // The stamps come before the state that they belong to.
  const std::uint64_t stamp = std::exchange(call.completed, ended ? call.completed : 0);
  if (!ended && (state & StateWord::waited_later) != 0) call.waited_since = stamp;
  if (call.state == CallState::scheduled) call.started = 0;
  if (frames != nullptr) *frames = std::move(addresses);
  if (counts != nullptr) *counts = std::move(sizes);
  if (shapes != nullptr) *shapes = std::move(dimensions);
  return call;
}

}  // namespace hymn
