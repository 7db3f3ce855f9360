// all_reduce in the memory of GPUs of several hosts: peer memory inside each, something else
// between them. Made of the models of its parts.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/cuda/peer_rules.hpp"
#include "collectives/planner/links.hpp"
#include "collectives/planner/models.hpp"

namespace hymn {
namespace {

/// The ranks of one host, as a group of their own.
PlanContext alone(const PlanContext& context, const HostSummary& host) {
  return {.layout = {.size = host.ranks, .hosts = {host}},
          .machines = context.machines,
          .tuning = nullptr,
          .peers = context.peers};
}

PlanQuery of_type(PlanQuery query, OpType type) {
  query.type = type;
  return query;
}

Verdict can_run(const PlanQuery& query, const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (layout.one_host()) return Verdict::no("all ranks are on one host");
  if (layout.largest_host() < 2) return Verdict::no("every rank is alone on its host");
  if (layout.largest_host() != layout.smallest_host())
    return Verdict::no(fmt::format("the hosts have different numbers of ranks: {} to {}",
                                   layout.smallest_host(), layout.largest_host()));
  for (const HostSummary& host : layout.hosts) {
    Verdict inside = peer_two_shot_can_run(query, alone(context, host));
    if (!inside.ok) return inside;
  }
  return can_reduce_by_hosts(query.dtype, query.op);
}

/// On the host that takes longest.
double seconds_inside(const PlanQuery& query, const PlanContext& context) {
  double most = 0;
  for (const HostSummary& host : context.layout.hosts) {
    const PlanContext here = alone(context, host);
    most = std::max(most, peer_windows_seconds(of_type(query, OpType::reduce_scatter), here) +
                              peer_windows_seconds(of_type(query, OpType::all_gather), here));
  }
  return most;
}

/// The ranks of a host take a share each, at the same time, and share the host's network: together
/// they are as one rank of each host with all of it. Bytes moved for each byte of the size.
double crossing(const PlanContext& context) {
  return bytes_moved(OpType::all_reduce, static_cast<int>(context.layout.hosts.size()));
}

}  // namespace

Verdict hierarchical_nccl_can_run(const PlanQuery& query, const PlanContext& context) {
  Verdict verdict = can_run(query, context);
  if (!verdict.ok) return verdict;
  PlanQuery between = query;
  between.op = between_hosts(query.op);
  return nccl_can_run(between, context);
}

double hierarchical_nccl_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds_inside(query, context) +
         cost_of(cost_row("nccl", "nccl", CostSetting::several_hosts), query,
                 static_cast<double>(context.layout.hosts.size()), crossing(context),
                 network_bandwidth(context, Interfaces::all));
}

Verdict hierarchical_staged_can_run(const PlanQuery& query, const PlanContext& context) {
  return can_run(query, context);
}

// Copies and messages of a host's ranks go through the same memory.
double hierarchical_staged_seconds(const PlanQuery& query, const PlanContext& context) {
  const auto hosts = static_cast<int>(context.layout.hosts.size());
  return seconds_inside(query, context) +
         cost_of(cost_row("staged", "staged", CostSetting::one_host), query, 0, 1, 0) +
         cost_of(cost_row("mpi_p2p", "pairwise", CostSetting::several_hosts), query,
                 pairwise_messages(OpType::all_reduce, hosts), crossing(context),
                 network_bandwidth(context, Interfaces::widest));
}

}  // namespace hymn
