#include "collectives/cuda/peer_models.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/links.hpp"
#include "collectives/costs/traffic.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "collectives/cuda/peer_team.hpp"

namespace hymn::peer_models {
namespace {

constexpr MethodCost one_shot_cost("cuda_p2p", "one_shot");
constexpr MethodCost two_shot_cost("cuda_p2p", "two_shot");
constexpr MethodCost windows_cost("cuda_p2p", "windows");
constexpr MethodCost copies_cost("staged", "staged");
constexpr MethodCost messages_cost("mpi_p2p", "pairwise");

Verdict reach_each_other(const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (!layout.one_host())
    return Verdict::no(fmt::format("the ranks are on {} hosts", layout.hosts.size()));
  if (layout.size < 2) return Verdict::no("one rank alone has no peer");
  if (layout.size > static_cast<int>(cuda::most_peers))
    return Verdict::no(
        fmt::format("{} ranks, and at most {} can work together", layout.size, cuda::most_peers));
  if (!layout.all_gpu_peers()) return Verdict::no("some pairs of GPUs have no peer access");
  const GpuLinkKind worst = layout.worst_gpu_link();
  if (worst == GpuLinkKind::system)
    return Verdict::no(
        "some pairs of GPUs reach each other only through the link between packages");
  if (worst == GpuLinkKind::unknown)
    return Verdict::no("it is not known how some pairs of GPUs reach each other");
  return Verdict::yes();
}

template <PeerMethod method>
Verdict can_run(const PlanQuery& query, const PlanContext& context) {
  return first_no({needs_device_memory(query), peer_kernel_takes(query, method, peer_slot_bytes),
                   needs_gpus(context), reach_each_other(context)});
}

double seconds_for(const MethodCost& cost, const PlanQuery& query, const PlanContext& context,
                   double moved) {
  return cost_of(cost.in(CostSetting::one_host), query, 0, moved, peer_bandwidth(context));
}

// Every GPU reads all of every other GPU's buffer.
double one_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds_for(one_shot_cost, query, context, context.layout.size - 1);
}

// Every GPU reads its share of every other GPU's buffer, then everybody's result.
double two_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds_for(two_shot_cost, query, context,
                     bytes_moved(OpType::all_reduce, context.layout.size));
}

// Every GPU reads what is for it from every other one; in a broadcast all of them all from one, in
// a reduce one all from all of them.
double windows_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const bool is_whole = has_root(query.type) && !has_blocks(query.type);
  return seconds_for(windows_cost, query, context,
                     is_whole ? ranks - 1 : bytes_moved(query.type, ranks));
}

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

// Copies and messages of a host's ranks go through the same memory.
double hierarchical_staged_seconds(const PlanQuery& query, const PlanContext& context) {
  const auto hosts = static_cast<int>(context.layout.hosts.size());
  return seconds_inside_hosts(query, context) +
         cost_of(copies_cost.in(CostSetting::one_host), query, 0, 1, 0) +
         cost_of(messages_cost.in(CostSetting::several_hosts), query,
                 pairwise_messages(OpType::all_reduce, hosts), bytes_between_hosts(context),
                 network_bandwidth(context, Interfaces::widest));
}

}  // namespace

Verdict can_reduce_by_host(const PlanQuery& query, const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (layout.one_host()) return Verdict::no("all ranks are on one host");
  if (layout.largest_host() < 2) return Verdict::no("every rank is alone on its host");
  if (layout.largest_host() != layout.smallest_host())
    return Verdict::no(fmt::format("the hosts have different numbers of ranks: {} to {}",
                                   layout.smallest_host(), layout.largest_host()));
  for (const HostSummary& host : layout.hosts) {
    Verdict inside = can_run<PeerMethod::two_shot>(query, alone(context, host));
    if (!inside.ok) return inside;
  }
  return Verdict::yes();
}

// On the host that takes longest.
double seconds_inside_hosts(const PlanQuery& query, const PlanContext& context) {
  double most = 0;
  for (const HostSummary& host : context.layout.hosts) {
    const PlanContext here = alone(context, host);
    most = std::max(most, windows_seconds(of_type(query, OpType::reduce_scatter), here) +
                              windows_seconds(of_type(query, OpType::all_gather), here));
  }
  return most;
}

double bytes_between_hosts(const PlanContext& context) {
  return bytes_moved(OpType::all_reduce, static_cast<int>(context.layout.hosts.size()));
}

const AlgorithmModel one_shot{.path = paths::cuda_p2p,
                              .method = "one_shot",
                              .serves = {OpType::all_reduce},
                              .can_run = can_run<PeerMethod::one_shot>,
                              .seconds = one_shot_seconds,
                              .memory = MemoryKind::device,
                              .needs_kernels = true};
const AlgorithmModel two_shot{.path = paths::cuda_p2p,
                              .method = "two_shot",
                              .serves = {OpType::all_reduce},
                              .can_run = can_run<PeerMethod::two_shot>,
                              .seconds = two_shot_seconds,
                              .memory = MemoryKind::device,
                              .needs_kernels = true};
const AlgorithmModel windows{.path = paths::cuda_p2p,
                             .method = "windows",
                             .serves = through_windows,
                             .can_run = can_run<PeerMethod::windows>,
                             .seconds = windows_seconds,
                             .memory = MemoryKind::device,
                             .needs_kernels = true};
const AlgorithmModel hierarchical_staged{.path = paths::cuda_p2p,
                                         .method = "hierarchical_staged",
                                         .serves = {OpType::all_reduce},
                                         .can_run = can_reduce_by_host,
                                         .seconds = hierarchical_staged_seconds,
                                         .memory = MemoryKind::device,
                                         .needs_kernels = true};

}  // namespace hymn::peer_models
