#include "recorder/call_snapshot.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "collectives/coalesced_calls.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

std::size_t sizes_in(const SeenCall& call) {
  return call.counts.input.size() + call.counts.output.size();
}

/// As many as are shown at once.
void cut(std::vector<SeenCall>& calls) {
  std::size_t shown = 0;
  std::size_t sizes = 0;
  for (const SeenCall& call : calls) {
    sizes += sizes_in(call);
    if (shown == CallSnapshot::most_calls || (shown > 0 && sizes > CallSnapshot::most_counts))
      break;
    ++shown;
  }
  calls.resize(shown);
}

/// The latest come first: those that are asked for are seldom far from the end.
void read_calls(CallSnapshot& snapshot, const CallRing& ring, std::uint64_t uid,
                std::uint64_t sequence) {
  std::vector<SeenCall>& calls = snapshot.calls;
  bool is_torn = false;  // what is being written, or was just overwritten, may be the missing one
  const std::uint64_t first = ring.first_id();
  for (std::uint64_t id = ring.next_id(); id > first; --id) {
    BlockCounts counts;
    const auto record = ring.read(id - 1, nullptr, &counts);
    if (!record) {
      is_torn = true;
      continue;
    }
    if (record->group_uid != uid || !is_collective(record->type)) continue;
    if (record->sequence < sequence) break;
    calls.emplace_back(*record, std::move(counts));
  }
  std::ranges::reverse(calls);
  std::uint64_t next = sequence;
  const auto gap = std::ranges::find_if(
      calls, [&next](const SeenCall& call) { return call.sequence != next++; });
  snapshot.is_overwritten = !calls.empty() && gap == calls.begin() && !is_torn;
  calls.erase(gap, calls.end());
  cut(calls);
}

// A call is six words, the last of which is in what order its dimensions lie, and then the sizes of
// its blocks: those of the input, those of the output.

constexpr std::size_t words_of_call = 6;
using SnapshotWords = std::array<std::uint64_t, words_of_call>;
constexpr std::uint64_t most_sizes = 0xffff;  // of a call, as HYMN_RECORDER_COUNTS
std::size_t inputs_in(const SnapshotWords& words) { return (words[4] >> 32) & most_sizes; }
std::size_t outputs_in(const SnapshotWords& words) { return words[4] >> 48; }

SnapshotWords words_of(const SeenCall& call) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t kinds = number(call.type) | number(call.kind) << 8 |
                              number(call.input.dtype) << 16 | number(call.output.dtype) << 24 |
                              number(static_cast<std::uint32_t>(call.peer)) << 32;
  const auto form = [&](const CallSide& side) {
    return number(side.layout) | number(side.even) << 8;
  };
  return {call.sequence,
          kinds,
          call.input.count,
          call.output.count,
          form(call.input) | form(call.output) << 16 | number(call.on_gpu) << 9 |
              number(call.coalesced) << 10 | number(call.given_blocks) << 11 |
              number(call.own_bundles) << 12 | number(call.counts.input.size()) << 32 |
              number(call.counts.output.size()) << 48,
          call.coalesced ? number(call.input.buffers) | number(call.output.buffers) << 16
                         : facts_of(static_cast<const CallRecord&>(call)).order};
}

CallSide side_of(std::uint64_t count, std::uint64_t dtype, std::uint64_t form) {
  CallSide side;
  side.count = count;
  side.dtype = static_cast<DataType>(dtype & 0xff);
  side.layout = static_cast<Layout>(form & 0xff);
  side.even = ((form >> 8) & 1) != 0;
  return side;
}

bool is_possible(const CallSide& side) {
  return static_cast<std::size_t>(side.dtype) < data_type_count && side.layout <= Layout::list;
}

/// Of that many elements, whose number has as many factors as an order has dimensions, there are
/// layouts of every order.
bool is_order(std::uint64_t word) {
  return word == 0 || !layout_with(word, std::size_t{1} << 16).shape.empty();
}

SeenCall call_of(const SnapshotWords& words, BlockCounts counts) {
  SeenCall call;
  call.counts = std::move(counts);
  call.sequence = words[0];
  call.type = static_cast<OpType>(words[1] & 0xff);
  call.kind = static_cast<ReduceKind>((words[1] >> 8) & 0xff);
  call.peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[1] >> 32));
  call.input = side_of(words[2], words[1] >> 16, words[4]);
  call.output = side_of(words[3], words[1] >> 24, words[4] >> 16);
  call.on_gpu = ((words[4] >> 9) & 1) != 0;
  call.coalesced = ((words[4] >> 10) & 1) != 0;
  call.given_blocks = ((words[4] >> 11) & 1) != 0;
  call.own_bundles = ((words[4] >> 12) & 1) != 0;
  if (call.coalesced) {
    call.input.buffers = static_cast<std::uint16_t>(words[5]);
    call.output.buffers = static_cast<std::uint16_t>(words[5] >> 16);
  } else if (words[5] != 0) {
    (is_shaped_by_output(call.type) ? call.output : call.input).set_order(words[5]);
  }
  const bool is_possible_call =
      is_collective(call.type) && static_cast<std::size_t>(call.kind) < reduce_kind_count &&
      is_possible(call.input) && is_possible(call.output) && (call.coalesced || is_order(words[5]));
  // Bits that mean nothing mean something to another version.
  if (!is_possible_call || words_of(call) != words)
    throw NetworkError("a rank reports a call that does not exist",
                       {.remedy = "check that all ranks run the same version of hymn"});
  return call;
}

/// Takes them off the front.
std::span<const std::uint64_t> take_words(std::span<const std::uint64_t>& words,
                                          std::size_t count) {
  if (words.size() < count)
    throw NetworkError("a rank reports only half of a call",
                       {.remedy = "check that all ranks run the same version of hymn"});
  const auto taken = words.first(count);
  words = words.subspan(count);
  return taken;
}

/// On the side that all members know alike.
std::vector<std::uint64_t> cut_counts(const SeenCall& call) {
  if (!call.coalesced) return {};
  return all_know_outputs(call.type) ? counts_of_buffers(call.output, call.counts.output)
                                     : counts_of_buffers(call.input, call.counts.input);
}

}  // namespace

std::vector<std::uint64_t> counts_of_buffers(const CallSide& side,
                                             const std::vector<std::uint64_t>& kept) {
  if (side.layout == Layout::none || side.buffers == 0 || !side.counts_all()) return {};
  return side.even ? std::vector(side.buffers, side.count / side.buffers) : kept;
}

CallFacts facts_of(const SeenCall& call) {
  CallFacts facts = facts_of(static_cast<const CallRecord&>(call));
  if (facts.count != 0) facts.cut = cut_of(cut_counts(call));
  return facts;
}

std::string describe(const SeenCall& call) {
  const CallFacts facts = facts_of(call);
  return describe(facts) + (facts.cut != 0 ? tell_cut(cut_counts(call)) : "");
}

CallSnapshot look_at_calls(const GroupLine& line, const CallRing& ring, std::uint64_t uid,
                           std::uint64_t sequence) {
  CallSnapshot snapshot;
  snapshot.is_recorded = ring.is_on();
  if (ring.is_on() && line.collectives.load(std::memory_order_acquire) >= sequence)
    read_calls(snapshot, ring, uid, sequence);
  // After the calls: those of a rank that had not run out then are its own.
  snapshot.joins = line.joins.load(std::memory_order_acquire);
  snapshot.joined_at = line.joined_at.load(std::memory_order_acquire);
  return snapshot;
}

CallSnapshot look_at_calls(const CallRing& ring, std::uint64_t uid, std::uint64_t sequence) {
  CallSnapshot snapshot;
  snapshot.is_recorded = ring.is_on();
  if (ring.is_on()) read_calls(snapshot, ring, uid, sequence);
  return snapshot;
}

CallProgress report_of(const CallSnapshot& snapshot) {
  CallProgress report{.knows_group = true,
                      .is_recorded = snapshot.is_recorded,
                      .is_overwritten = snapshot.is_overwritten,
                      .joins = snapshot.joins,
                      .joined_at = snapshot.joined_at};
  for (const SeenCall& call : snapshot.calls) {
    const auto add = [&](const auto& words) {
      std::ranges::copy(words, std::back_inserter(report.calls));
    };
    add(words_of(call));
    add(call.counts.input);
    add(call.counts.output);
  }
  return report;
}

CallSnapshot snapshot_of(const CallProgress& report) {
  CallSnapshot snapshot{.is_recorded = report.is_recorded,
                        .is_overwritten = report.is_overwritten,
                        .joins = report.joins,
                        .joined_at = report.joined_at};
  for (auto rest = std::span(report.calls); !rest.empty();) {
    SnapshotWords words{};
    std::ranges::copy(take_words(rest, words_of_call), words.begin());
    const auto inputs = take_words(rest, inputs_in(words));
    const auto outputs = take_words(rest, outputs_in(words));
    snapshot.calls.push_back(
        call_of(words, {{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}}));
  }
  return snapshot;
}

}  // namespace hymn
