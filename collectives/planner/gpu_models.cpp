// Paths for buffers in the memory of GPUs. The rules and figures of peer memory are here in builds
// without its kernels, too, so that `hymn explain` can tell what a machine is good for.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/cuda/peer_rules.hpp"
#include "collectives/cuda/peer_team.hpp"
#include "collectives/nccl/nccl_types.hpp"
#include "collectives/planner/links.hpp"
#include "collectives/planner/models.hpp"

namespace hymn {
namespace {

Verdict needs_device_memory(const PlanQuery& query) {
  if (is_on_device(query)) return Verdict::yes();
  return Verdict::no(query.type == OpType::barrier ? "it is not ordered by a stream"
                                                   : "the buffers are in host memory");
}

Verdict needs_gpus(const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (layout.ranks_without_gpu() == 0) return Verdict::yes();
  return Verdict::no(
      fmt::format("{} of {} ranks have no GPU", layout.ranks_without_gpu(), layout.size));
}

Verdict needs_own_gpus(const PlanContext& context) {
  const int sharers = context.layout.most_gpu_sharers();
  if (sharers <= 1) return Verdict::yes();
  return Verdict::no(fmt::format("{} ranks share one GPU, which NCCL refuses", sharers));
}

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

Verdict nccl_has(const PlanQuery& query) {
  if (!reduces(query.type)) return Verdict::yes();
  const std::string refusal = nccl_refusal(query.dtype, query.op);
  if (!refusal.empty()) return Verdict::no(refusal);
  return Verdict::yes();
}

Verdict peer_can_run(const PlanQuery& query, const PlanContext& context, PeerMethod method) {
  for (Verdict verdict :
       {needs_device_memory(query), peer_kernel_takes(query, method, peer_slot_bytes),
        needs_gpus(context), reach_each_other(context)})
    if (!verdict.ok) return verdict;
  return Verdict::yes();
}

double peer_seconds(std::string_view method, const PlanQuery& query, const PlanContext& context,
                    double moved) {
  return cost_of(cost_row("cuda_p2p", method, CostSetting::one_host), query, 0, moved,
                 peer_bandwidth(context));
}

}  // namespace

Verdict peer_one_shot_can_run(const PlanQuery& query, const PlanContext& context) {
  return peer_can_run(query, context, PeerMethod::one_shot);
}

// Every GPU reads all of every other GPU's buffer.
double peer_one_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return peer_seconds("one_shot", query, context, context.layout.size - 1);
}

Verdict peer_two_shot_can_run(const PlanQuery& query, const PlanContext& context) {
  return peer_can_run(query, context, PeerMethod::two_shot);
}

// Every GPU reads its share of every other GPU's buffer, then everybody's result.
double peer_two_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return peer_seconds("two_shot", query, context,
                      bytes_moved(OpType::all_reduce, context.layout.size));
}

Verdict peer_windows_can_run(const PlanQuery& query, const PlanContext& context) {
  return peer_can_run(query, context, PeerMethod::windows);
}

bool peer_windows_serve(OpType type) { return has_peer_kernel(PeerMethod::windows, type); }

// Every GPU reads what is for it from every other one; in a broadcast all of them all from one, in
// a reduce one all from all of them.
double peer_windows_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const bool is_whole = has_root(query.type) && !has_blocks(query.type);
  return peer_seconds("windows", query, context,
                      is_whole ? ranks - 1 : bytes_moved(query.type, ranks));
}

Verdict nccl_can_run(const PlanQuery& query, const PlanContext& context) {
  for (Verdict verdict :
       {needs_device_memory(query), nccl_has(query), needs_gpus(context), needs_own_gpus(context)})
    if (!verdict.ok) return verdict;
  return Verdict::yes();
}

double nccl_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const double moved = bytes_moved(query.type, ranks);
  const double ring = ring_bandwidth(context);
  if (!context.layout.one_host()) {
    const double bandwidth = std::min(ring, network_bandwidth(context, Interfaces::all));
    const auto hosts = static_cast<double>(context.layout.hosts.size());
    return cost_of(cost_row("nccl", "nccl", CostSetting::several_hosts), query, hosts, moved,
                   bandwidth);
  }
  // NCCL chooses the better of its protocols itself.
  return std::min(
      cost_of(cost_row("nccl", "low_latency", CostSetting::one_host), query, ranks - 1, moved,
              ring),
      cost_of(cost_row("nccl", "nccl", CostSetting::one_host), query, ranks - 1, moved, ring));
}

Verdict staged_can_run(const PlanQuery& query, const PlanContext& context) {
  if (query.type == OpType::barrier && !is_on_device(query)) return needs_device_memory(query);
  if (!is_on_device(query)) return Verdict::no("the buffers are in host memory: nothing to copy");
  PlanQuery copied = query;
  copied.memory = MemoryKind::host;
  return mpi_can_run(copied, context);
}

double staged_seconds(const PlanQuery& query, const PlanContext& context) {
  return mpi_seconds(query, context) +
         cost_of(cost_row("staged", "staged", CostSetting::one_host), query, 0, 1, 0);
}

}  // namespace hymn
