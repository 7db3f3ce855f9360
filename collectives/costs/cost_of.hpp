// What the models of algorithms have in common: where a request may lie, and what a row of the
// table says of rounds and bytes.
#pragma once

#include "collectives/algorithm_model.hpp"
#include "collectives/costs/cost_table.hpp"

namespace hymn {

/// Whether the host cannot read it.
constexpr bool is_on_device(const PlanQuery& query) { return query.memory == MemoryKind::device; }
Verdict needs_host_memory(const PlanQuery& query);
Verdict needs_device_memory(const PlanQuery& query);
Verdict needs_gpus(const PlanContext& context);
/// The same, and that hymn's own kernels for the host reduce it, where it is a reduction.
Verdict host_can_do(const PlanQuery& query);

/// What surrounds the ranks; the second for what never leaves a host.
CostSetting setting_of(const PlanContext& context);
CostSetting setting_on_host(const PlanContext& context);

/// What the row says of so many rounds, and so many bytes over links of that bandwidth.
double cost_of(const CostRow& row, const PlanQuery& query, double rounds, double moved,
               double bandwidth);

/// Rounds of messages, and bytes that a rank moves for each byte of the size: where ranks of one
/// host share cores, the steps of all come one after another.
double rounds_on_cores(double rounds, const PlanContext& context);
double bytes_on_cores(OpType type, const PlanContext& context);

/// What crosses the interface of the fullest host when each rank talks to each, for each byte that
/// a rank moves: the part that goes to other hosts, times the ranks that share the interface.
double shared_interface(const PlanContext& context);

}  // namespace hymn
