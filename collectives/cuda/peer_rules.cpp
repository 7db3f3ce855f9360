#include "collectives/cuda/peer_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "collectives/cuda/pack.hpp"

namespace hymn {
namespace {

constexpr std::array reduced_types = {DataType::float32, DataType::float16, DataType::bfloat16,
                                      DataType::int32};
constexpr std::array reductions = {ReduceKind::sum, ReduceKind::avg, ReduceKind::min,
                                   ReduceKind::max, ReduceKind::premul_sum};

template <class T, std::size_t n>
bool is_among(const std::array<T, n>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

Verdict can_reduce(const PlanQuery& query) {
  if (!is_among(reduced_types, query.dtype))
    return Verdict::no(fmt::format("there is no kernel for {}", to_string(query.dtype)));
  if (!is_among(reductions, query.op))
    return Verdict::no(fmt::format("there is no kernel for {}", to_string(query.op)));
  return Verdict::yes();
}

}  // namespace

bool has_peer_kernel(PeerMethod method, OpType type) {
  if (type == OpType::all_reduce) return method != PeerMethod::windows;
  return method == PeerMethod::windows && through_windows.contains(type);
}

Verdict peer_kernel_takes(const PlanQuery& query, PeerMethod method, std::size_t slot_bytes) {
  if (!has_peer_kernel(method, query.type))
    return Verdict::no(fmt::format("there is no kernel for {}", to_string(query.type)));
  if (reduces(query.type)) {
    Verdict reduced = can_reduce(query);
    if (!reduced.ok) return reduced;
  }
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

Verdict can_reduce_by_hosts(DataType dtype, ReduceKind kind) {
  if (dtype == DataType::int32 && kind == ReduceKind::avg)
    return Verdict::no("an average of int32 is divided once, not first inside each host");
  return Verdict::yes();
}

}  // namespace hymn
