// The models that path_models() lists: who can run what, and how long it should take.
#pragma once

#include "collectives/planner/cost_table.hpp"
#include "collectives/planner/planner.hpp"
#include "collectives/planner/traffic.hpp"

namespace hymn {

Verdict threads_can_run(const PlanQuery& query, const PlanContext& context);
double threads_seconds(const PlanQuery& query, const PlanContext& context);
Verdict mpi_can_run(const PlanQuery& query, const PlanContext& context);
double mpi_seconds(const PlanQuery& query, const PlanContext& context);
Verdict messages_can_run(const PlanQuery& query, const PlanContext& context);
double mpi_p2p_seconds(const PlanQuery& query, const PlanContext& context);
double exchange_seconds(const PlanQuery& query, const PlanContext& context);
Verdict shm_can_run(const PlanQuery& query, const PlanContext& context);
Verdict shm_one_shot_can_run(const PlanQuery& query, const PlanContext& context);
Verdict shm_swapped_can_run(const PlanQuery& query, const PlanContext& context);
Verdict shm_scatter_can_run(const PlanQuery& query, const PlanContext& context);
bool shm_slots_serve(OpType type);
bool shm_flags_serve(OpType type);
bool shm_rings_serve(OpType type);
double shm_one_shot_seconds(const PlanQuery& query, const PlanContext& context);
double shm_swapped_seconds(const PlanQuery& query, const PlanContext& context);
Verdict shm_shown_can_run(const PlanQuery& query, const PlanContext& context);
bool shm_shown_serve(OpType type);
double shm_shown_seconds(const PlanQuery& query, const PlanContext& context);
double shm_sharing_seconds(const PlanQuery& query, const PlanContext& context);
double shm_two_shot_seconds(const PlanQuery& query, const PlanContext& context);
double shm_slots_seconds(const PlanQuery& query, const PlanContext& context);
/// Rounds of messages: where ranks of one host share cores, the steps of all come one after
/// another.
double rounds_on_cores(double rounds, const PlanContext& context);
double shm_messages_seconds(const PlanQuery& query, const PlanContext& context);
Verdict hierarchical_can_run(const PlanQuery& query, const PlanContext& context);
double hierarchical_seconds(const PlanQuery& query, const PlanContext& context);

Verdict peer_one_shot_can_run(const PlanQuery& query, const PlanContext& context);
double peer_one_shot_seconds(const PlanQuery& query, const PlanContext& context);
Verdict peer_two_shot_can_run(const PlanQuery& query, const PlanContext& context);
double peer_two_shot_seconds(const PlanQuery& query, const PlanContext& context);
Verdict peer_windows_can_run(const PlanQuery& query, const PlanContext& context);
bool peer_windows_serve(OpType type);
double peer_windows_seconds(const PlanQuery& query, const PlanContext& context);
/// Peer memory inside each host; between hosts NCCL, or messages in memory of the host.
Verdict hierarchical_nccl_can_run(const PlanQuery& query, const PlanContext& context);
double hierarchical_nccl_seconds(const PlanQuery& query, const PlanContext& context);
Verdict hierarchical_staged_can_run(const PlanQuery& query, const PlanContext& context);
double hierarchical_staged_seconds(const PlanQuery& query, const PlanContext& context);
Verdict nccl_can_run(const PlanQuery& query, const PlanContext& context);
double nccl_seconds(const PlanQuery& query, const PlanContext& context);
Verdict staged_can_run(const PlanQuery& query, const PlanContext& context);
double staged_seconds(const PlanQuery& query, const PlanContext& context);

/// What the row says of so many rounds, and so many bytes over links of that bandwidth.
double cost_of(const CostRow& row, const PlanQuery& query, double rounds, double moved,
               double bandwidth);

/// Whether the host cannot read it.
constexpr bool is_on_device(const PlanQuery& query) { return query.memory == MemoryKind::device; }
Verdict needs_host_memory(const PlanQuery& query);

}  // namespace hymn
