#include "collectives/cuda/peer_rules.hpp"

#include <fmt/format.h>

#include <limits>

#include "collectives/cuda/pack.hpp"

namespace hymn {

bool has_peer_kernel(PeerMethod method, OpType type) {
  if (type == OpType::all_reduce) return method != PeerMethod::windows;
  return method == PeerMethod::windows && through_windows.contains(type);
}

Verdict peer_kernel_takes(const PlanQuery& query, PeerMethod method, std::size_t slot_bytes) {
  if (!has_peer_kernel(method, query.type))
    return Verdict::no(fmt::format("there is no kernel for {}", to_string(query.type)));
  if (reduces(query.type) && !has_peer_cell(query.dtype, query.op))
    return Verdict::no(fmt::format("there is no kernel for {} of {}", to_string(query.op),
                                   to_string(query.dtype)));
  if (method == PeerMethod::one_shot && query.bytes > slot_bytes)
    return Verdict::no(
        fmt::format("it is larger than the {} bytes of a staging buffer", slot_bytes));
  return Verdict::yes();
}

std::size_t peer_piece_bytes(OpType type, PeerMethod method, int ranks, std::size_t slot_bytes) {
  if (method == PeerMethod::two_shot) return std::numeric_limits<std::size_t>::max();
  if (!has_input_blocks(type)) return slot_bytes;
  return slot_bytes / static_cast<std::size_t>(ranks) / cuda::pack_bytes * cuda::pack_bytes;
}

}  // namespace hymn
