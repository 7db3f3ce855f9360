// What calls of different members must have in common, as a number: it travels beside their data,
// so that calls that do not fit together are found by whoever reads that.
#pragma once

#include <cstdint>

#include "collectives/operation.hpp"
#include "hymn/error.hpp"
#include "p2p/call_chain.hpp"

namespace hymn {

/// Of the side that all members have.
inline DataType dtype_of(const Request& request) {
  return all_have_outputs(request.type) ? request.outputs.dtype() : request.inputs.dtype();
}
/// Elements that all members know alike, where some blocks are given by counts or lists; 0: each
/// knows its own only.
std::uint64_t count_of_blocks(const Request& request);
/// How the blocks lie, as all members know it: of those that the root alone has, the root's form.
unsigned form_of_blocks(const Request& request);

/// Whether a buffer that is no list may lie in memory in another order than its elements come.
inline bool has_strides(const Request& request) {
  return (request.inputs.flat().strides.size() | request.outputs.flat().strides.size()) != 0;
}
/// Beside the label, in what order all ranks' elements lie (common_order); rows as they come change
/// nothing.
std::uint64_t with_layout(std::uint64_t label, const Request& request);

/// What a call asks for, the same on members that ask for the same: to be mixed into a CallChain.
/// Calls that differ in the count, or in the rest, have different ones. `peer`: the root's group
/// rank, or -1.
inline std::uint64_t call_label(const Request& request, int peer = -1) {
  const auto is_plain = [](Layout layout) { return layout <= Layout::equal; };
  static_assert(Layout::none < Layout::equal && Layout::whole < Layout::equal);
  const bool by_output = all_have_outputs(request.type);
  const bool on_all = !has_root(request.type) || !has_blocks(request.type);
  std::uint64_t count = by_output ? request.outputs.flat().count : request.inputs.flat().count;
  std::uint64_t form = 0;
  if (!on_all || !is_plain(request.inputs.layout()) || !is_plain(request.outputs.layout()))
      [[unlikely]] {
    form = form_of_blocks(request);
    if (form != 0) count = count_of_blocks(request);
  }
  const DataType dtype = by_output ? request.outputs.dtype() : request.inputs.dtype();
  if (dtype == DataType::opaque) count = 0;   // one rank's elements may be several of another's
  if (dtype == DataType::value) [[unlikely]]  // values of other sizes are others
    count = count * label_factor +
            (by_output ? request.outputs.element_bytes() : request.inputs.element_bytes());
  const std::uint64_t rest = static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 17 |
                             form << 13 | static_cast<std::uint64_t>(request.type) << 9 |
                             static_cast<std::uint64_t>(dtype) << 4 |
                             static_cast<std::uint64_t>(request.op.kind());
  return count * label_factor ^ rest;
}
/// The same of a call, which may be a part of several.
inline std::uint64_t call_label(const Call& call) {
  const std::uint64_t label = call_label(*call.request, call.peer) ^ call.whole_label;
  if (!has_strides(*call.request) || call.whole_label != 0) [[likely]]
    return label;
  return with_layout(label, *call.request);
}
static_assert(op_type_count <= 16 && data_type_count <= 32 && reduce_kind_count <= 16);

/// UsageError: what group rank `member` calls, or has called before, does not fit to this call.
/// Whoever knows what others call tells that instead (GroupHealth::explained).
class OtherCall final : public UsageError {
 public:
  OtherCall(int member, const Request& request, int peer);
};
[[noreturn]] void throw_other_call(int member, const Request& request, int peer = -1);

}  // namespace hymn
