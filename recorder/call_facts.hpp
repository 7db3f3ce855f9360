// What the calls of different ranks have in common when they are right: told in words, and as a
// number that can be compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "collectives/operation.hpp"
#include "recorder/call_record.hpp"

namespace hymn {

/// What must be the same on all ranks of a right collective call.
struct CallFacts {
  OpType type = OpType::barrier;
  DataType dtype = DataType::uint8;
  /// Elements of the side that all ranks have. 0 where ranks may rightly give different counts:
  /// counted or listed blocks of gather, scatter and all_to_all, and types of other libraries.
  std::uint64_t count = 0;
  ReduceKind kind = ReduceKind::sum;
  std::int32_t root = -1;      ///< global rank; -1: there is none
  Layout form = Layout::none;  ///< of the blocks
  /// Buffers, or barriers, of as many calls that were made as one; 0: it stands alone.
  std::size_t coalesced = 0;
  std::uint64_t cut = 0;    ///< of these, how the elements are cut into buffers; 0: not known
  std::uint64_t order = 0;  ///< in which the dimensions lie in memory, as common_order()
  friend bool operator==(const CallFacts&, const CallFacts&) = default;

  /// Blocks of given sizes, which may differ.
  bool is_uneven() const { return form == Layout::counted || form == Layout::list; }
};

CallFacts facts_of(const CallRecord& call);
CallFacts facts_of(const Call& call);
/// Of a call that stands alone.
CallFacts facts_of(const Request& request);
/// Whether they may be those of one call: how it is cut is not known to all.
bool fit(CallFacts one, CallFacts other);

/// Sets in the record what `call` is as a whole; after the sides of the record.
HYMN_INLINE void record_whole(CallRecord& record, const Call& call) {
  record.coalesced = call.coalesced != 0;
  record.given_blocks = call.in_given_blocks;
  record.own_bundles = call.in_own_bundles;
  // Their number is all that there is of them.
  if (record.type == OpType::barrier)
    record.input.buffers =
        static_cast<std::uint16_t>(std::min<std::size_t>(call.coalesced, CallSide::most_buffers));
}

/// CallFacts::cut of buffers of so many elements, and in words: ": 5, 3".
std::uint64_t cut_of(std::span<const std::uint64_t> counts);
std::string tell_cut(std::span<const std::uint64_t> counts);

/// A hash over the facts.
std::uint64_t signature_of(const CallFacts& facts);
std::uint64_t signature_of(const CallRecord& call);

/// "all_reduce of 1024 float32 with sum", "broadcast of 3 int8 from root 0"
std::string describe(const CallFacts& facts);

/// "hymn:all_reduce", "hymn:send 1->0", "hymn:recv 0<-any"; `rank` is this one.
std::string profiling_name(OpType type, int rank, int peer);
/// The same, and of coalesced calls "hymn:all_reduce_coalesced",
/// "hymn:all_gather_into_tensor_coalesced", "hymn:reduce_scatter_tensor_coalesced".
std::string profiling_name(const CallRecord& call, int rank);
std::string coalesced_name(OpType type);

/// Bytes that this rank gives; those that it gets, where it gives nothing. Of a collective's
/// rooted forms only the side that every rank has.
std::size_t payload_of(const Request& request);

}  // namespace hymn
