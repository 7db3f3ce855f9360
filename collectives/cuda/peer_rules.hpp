// What the kernels between peers take, from nothing but values: for groups that have them, and for
// the planner.
#pragma once

#include "collectives/cuda/peer_cells.hpp"
#include "collectives/op_types.hpp"
#include "collectives/plan_query.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// How a collective is made: an all_reduce in one shot or two, or another one through the staging
/// buffers.
enum class PeerMethod : unsigned char { one_shot, two_shot, windows };

/// What a staging buffer holds at once. It has two of these.
inline constexpr std::size_t peer_slot_bytes = std::size_t{4} << 20;

/// What PeerMethod::windows carries.
inline constexpr OpTypes through_windows = {
    OpType::broadcast,  OpType::reduce,         OpType::gather,     OpType::scatter,
    OpType::all_gather, OpType::reduce_scatter, OpType::all_to_all, OpType::barrier};

/// A reduction that every method has a kernel for.
struct PeerCell {
  DataType dtype;
  ReduceKind kind;
};
#define HYMN_PEER_CELL(type, Type, kind, Kind, ...) PeerCell{DataType::type, ReduceKind::kind},
inline constexpr PeerCell peer_cells[] = {HYMN_PEER_CELLS(HYMN_PEER_CELL, )};
#undef HYMN_PEER_CELL

constexpr bool has_peer_cell(DataType dtype, ReduceKind kind) {
  for (const PeerCell& cell : peer_cells)
    if (cell.dtype == dtype && cell.kind == kind) return true;
  return false;
}

bool has_peer_kernel(PeerMethod method, OpType type);

/// Whether kernels can carry it out, with slots of that many bytes.
Verdict peer_kernel_takes(const PlanQuery& query, PeerMethod method, std::size_t slot_bytes);

/// How much of a buffer, or of each rank's block, one kernel carries at most.
std::size_t peer_piece_bytes(OpType type, PeerMethod method, int ranks, std::size_t slot_bytes);

}  // namespace hymn
