// What the kernels between peers take, from nothing but values: for groups that have them, and for
// the planner.
#pragma once

#include "collectives/op_types.hpp"
#include "collectives/plan_query.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// How a collective is made: an all_reduce in one shot or two, or another one through the staging
/// buffers.
enum class PeerMethod : unsigned char { one_shot, two_shot, windows };

/// What a staging buffer holds at once. It has two of these.
inline constexpr std::size_t peer_slot_bytes = std::size_t{4} << 20;
/// What a box of a staging buffer holds of messages. There are two for each member of the group.
inline constexpr std::size_t peer_box_bytes = std::size_t{256} << 10;

/// What PeerMethod::windows carries.
inline constexpr OpTypes through_windows = {
    OpType::broadcast,  OpType::reduce,         OpType::gather,     OpType::scatter,
    OpType::all_gather, OpType::reduce_scatter, OpType::all_to_all, OpType::barrier};

bool has_peer_kernel(PeerMethod method, OpType type);

/// Whether kernels can carry it out, with slots of that many bytes.
Verdict peer_kernel_takes(const PlanQuery& query, PeerMethod method, std::size_t slot_bytes);

/// How much of a buffer, or of each rank's block, one kernel carries at most.
std::size_t peer_piece_bytes(OpType type, PeerMethod method, int ranks, std::size_t slot_bytes);

/// What is left to be done between hosts when each host has reduced its own; and whether it then
/// comes to the same.
constexpr ReduceKind between_hosts(ReduceKind kind) {
  return kind == ReduceKind::premul_sum ? ReduceKind::sum : kind;
}
Verdict can_reduce_by_hosts(DataType dtype, ReduceKind kind);

}  // namespace hymn
