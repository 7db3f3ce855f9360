// Paths for buffers in the memory of GPUs. Of those that are not in this build the rules and
// figures are here, too, so that `hymn explain` can tell what a machine is good for.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/nccl/nccl_types.hpp"
#include "collectives/planner/links.hpp"
#include "collectives/planner/models.hpp"

namespace hymn {
namespace {

constexpr int most_peers = 16;
// The kernels move 16 bytes at a time.
constexpr std::size_t kernel_step = 16;

Verdict needs_device_memory(const PlanQuery& query) {
  if (is_on_device(query)) return Verdict::yes();
  return Verdict::no(query.type == OpType::barrier ? "it is ordered by no stream"
                                                   : "the buffers are in host memory");
}

Verdict needs_own_gpus(const PlanContext& context, std::string_view shared) {
  const GroupLayout& layout = context.layout;
  if (layout.ranks_without_gpu() > 0)
    return Verdict::no(
        fmt::format("{} of {} ranks have no GPU", layout.ranks_without_gpu(), layout.size));
  if (layout.most_gpu_sharers() > 1)
    return Verdict::no(fmt::format("{} ranks share one GPU{}", layout.most_gpu_sharers(), shared));
  return Verdict::yes();
}

Verdict kernel_has(const PlanQuery& query) {
  if (query.type != OpType::all_reduce)
    return Verdict::no(fmt::format("only all_reduce has kernels, not {}", to_string(query.type)));
  const bool type = query.dtype == DataType::bfloat16 || query.dtype == DataType::float16 ||
                    query.dtype == DataType::float32;
  if (!type) return Verdict::no(fmt::format("there is no kernel for {}", to_string(query.dtype)));
  if (query.op != ReduceKind::sum && query.op != ReduceKind::avg)
    return Verdict::no(fmt::format("there is no kernel for {}", to_string(query.op)));
  if (query.bytes % kernel_step != 0)
    return Verdict::no(fmt::format("the size is no multiple of {} bytes", kernel_step));
  return Verdict::yes();
}

Verdict reach_each_other(const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (!layout.one_host())
    return Verdict::no(fmt::format("the ranks are on {} hosts", layout.hosts.size()));
  if (layout.size < 2) return Verdict::no("one rank alone has no peer");
  if (layout.size > most_peers)
    return Verdict::no(
        fmt::format("{} GPUs, and at most {} can work together", layout.size, most_peers));
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

}  // namespace

Verdict one_shot_can_run(const PlanQuery& query, const PlanContext& context) {
  for (Verdict verdict : {needs_device_memory(query), kernel_has(query),
                          needs_own_gpus(context, ""), reach_each_other(context)})
    if (!verdict.ok) return verdict;
  return Verdict::yes();
}

// Every GPU reads all of every other GPU's buffer.
double one_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return cost_of(cost_row("cuda_p2p", "one_shot", CostSetting::one_host), query, 0,
                 context.layout.size - 1, peer_bandwidth(context));
}

// Every GPU reads its share of every other GPU's buffer, then everybody's result.
double two_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return cost_of(cost_row("cuda_p2p", "two_shot", CostSetting::one_host), query, 0,
                 bytes_moved(OpType::all_reduce, context.layout.size), peer_bandwidth(context));
}

Verdict nccl_can_run(const PlanQuery& query, const PlanContext& context) {
  for (Verdict verdict : {needs_device_memory(query), nccl_has(query),
                          needs_own_gpus(context, ", which NCCL refuses")})
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
