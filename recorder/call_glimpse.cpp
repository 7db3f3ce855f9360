#include "recorder/call_glimpse.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "hymn/error.hpp"

namespace hymn {
namespace {

/// The latest come first: those that are asked for are seldom far from the end.
void read_calls(CallGlimpse& glimpse, const CallRing& ring, std::uint64_t uid,
                std::uint64_t sequence) {
  std::vector<CallRecord>& calls = glimpse.calls;
  bool is_torn = false;  // what is being written, or was just overwritten, may be the missing one
  const std::uint64_t first = ring.first_id();
  for (std::uint64_t id = ring.next_id(); id > first; --id) {
    const auto record = ring.read(id - 1);
    if (!record) {
      is_torn = true;
      continue;
    }
    if (record->group_uid != uid || !is_collective(record->type)) continue;
    if (record->sequence < sequence) break;
    calls.push_back(*record);
  }
  std::ranges::reverse(calls);
  std::uint64_t next = sequence;
  const auto gap = std::ranges::find_if(
      calls, [&next](const CallRecord& call) { return call.sequence != next++; });
  glimpse.is_overwritten = !calls.empty() && gap == calls.begin() && !is_torn;
  calls.erase(gap, calls.end());
  if (calls.size() > CallGlimpse::most_calls) calls.resize(CallGlimpse::most_calls);
}

constexpr std::size_t words_of_call = 5;
using CallWords = std::array<std::uint64_t, words_of_call>;

CallWords words_of(const CallRecord& call) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t kinds = number(call.type) | number(call.kind) << 8 |
                              number(call.input.dtype) << 16 | number(call.output.dtype) << 24 |
                              number(static_cast<std::uint32_t>(call.peer)) << 32;
  const auto form = [&](const CallSide& side) {
    return number(side.layout) | number(side.even) << 8;
  };
  return {call.sequence, kinds, call.input.count, call.output.count,
          form(call.input) | form(call.output) << 16 | number(call.on_gpu) << 9 |
              number(call.coalesced) << 10};
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

CallRecord call_of(const CallWords& words) {
  CallRecord call;
  call.sequence = words[0];
  call.type = static_cast<OpType>(words[1] & 0xff);
  call.kind = static_cast<ReduceKind>((words[1] >> 8) & 0xff);
  call.peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[1] >> 32));
  call.input = side_of(words[2], words[1] >> 16, words[4]);
  call.output = side_of(words[3], words[1] >> 24, words[4] >> 16);
  call.on_gpu = ((words[4] >> 9) & 1) != 0;
  call.coalesced = ((words[4] >> 10) & 1) != 0;
  const bool is_possible_call = is_collective(call.type) &&
                                static_cast<std::size_t>(call.kind) < reduce_kind_count &&
                                is_possible(call.input) && is_possible(call.output);
  // Bits that mean nothing mean something to another version.
  if (!is_possible_call || words_of(call) != words)
    throw NetworkError("a rank tells of a call that there is not",
                       {.remedy = "check that all ranks run the same version of hymn"});
  return call;
}

}  // namespace

CallGlimpse look_at_calls(const GroupLine& line, const CallRing& ring, std::uint64_t uid,
                          std::uint64_t sequence) {
  CallGlimpse glimpse;
  glimpse.is_recorded = ring.is_on();
  if (ring.is_on() && line.collectives.load(std::memory_order_acquire) >= sequence)
    read_calls(glimpse, ring, uid, sequence);
  // After the calls: those of a rank that had not run out then are its own.
  glimpse.joins = line.joins.load(std::memory_order_acquire);
  glimpse.joined_at = line.joined_at.load(std::memory_order_acquire);
  return glimpse;
}

CallTale tale_of(const CallGlimpse& glimpse) {
  CallTale tale{.knows_group = true,
                .is_recorded = glimpse.is_recorded,
                .is_overwritten = glimpse.is_overwritten,
                .joins = glimpse.joins,
                .joined_at = glimpse.joined_at};
  for (const CallRecord& call : glimpse.calls)
    std::ranges::copy(words_of(call), std::back_inserter(tale.calls));
  return tale;
}

CallGlimpse glimpse_of(const CallTale& tale) {
  CallGlimpse glimpse{.is_recorded = tale.is_recorded,
                      .is_overwritten = tale.is_overwritten,
                      .joins = tale.joins,
                      .joined_at = tale.joined_at};
  if (tale.calls.size() % words_of_call != 0)
    throw NetworkError("a rank tells of half a call",
                       {.remedy = "check that all ranks run the same version of hymn"});
  for (auto rest = std::span(tale.calls); !rest.empty(); rest = rest.subspan(words_of_call)) {
    CallWords words{};
    std::ranges::copy(rest.first(words_of_call), words.begin());
    glimpse.calls.push_back(call_of(words));
  }
  return glimpse;
}

}  // namespace hymn
