#include "collectives/nccl/nccl_models.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/links.hpp"
#include "collectives/costs/traffic.hpp"
#include "collectives/cuda/float32_reduction.hpp"
#include "collectives/cuda/peer_models.hpp"
#include "collectives/nccl/nccl_types.hpp"

namespace hymn::nccl_models {
namespace {

constexpr MethodCost low_latency("nccl", "low_latency");
constexpr MethodCost figures("nccl", "nccl");

Verdict verdict_of(std::string refusal) {
  return refusal.empty() ? Verdict::yes() : Verdict::no(std::move(refusal));
}

Verdict needs_own_gpus(const PlanContext& context) {
  const int sharers = context.layout.most_gpu_sharers();
  if (sharers <= 1) return Verdict::yes();
  return Verdict::no(fmt::format("{} ranks share one GPU, which NCCL refuses", sharers));
}

Verdict nccl_reduces(const PlanQuery& query) {
  return verdict_of(reduces(query.type) ? nccl_refusal(query.dtype, query.op) : "");
}

/// Whether it may round at each hop.
Verdict may_round(const PlanQuery& query, const PlanContext& context) {
  const bool is_asked = context.nccl_in_float32 && reduces(query.type);
  return verdict_of(is_asked ? float32_refusal(query.dtype) : "");
}

Verdict nccl_can(const PlanQuery& query, const PlanContext& context) {
  return first_no({needs_device_memory(query), nccl_reduces(query), needs_gpus(context),
                   needs_own_gpus(context)});
}

Verdict can_run(const PlanQuery& query, const PlanContext& context) {
  return first_no({nccl_can(query, context), may_round(query, context)});
}

double seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const double moved = bytes_moved(query.type, ranks);
  const double ring = ring_bandwidth(context);
  if (!context.layout.one_host()) {
    const double bandwidth = std::min(ring, network_bandwidth(context, Interfaces::all));
    const auto hosts = static_cast<double>(context.layout.hosts.size());
    return cost_of(figures.in(CostSetting::several_hosts), query, hosts, moved, bandwidth);
  }
  // NCCL chooses the better of its protocols itself.
  return std::min(cost_of(low_latency.in(CostSetting::one_host), query, ranks - 1, moved, ring),
                  cost_of(figures.in(CostSetting::one_host), query, ranks - 1, moved, ring));
}

Verdict float32_can_run(const PlanQuery& query, const PlanContext& context) {
  if (!context.nccl_in_float32) return Verdict::no("reduce_in_float32 is not requested");
  return first_no({can_reduce_in_float32(query.dtype, query.op), nccl_can(query, context)});
}

// It is NCCL's own for float32, and copies on the GPU that take little beside it.
double float32_seconds(const PlanQuery& query, const PlanContext& context) {
  PlanQuery wide = query;
  wide.bytes = query.bytes / size_of(query.dtype) * size_of(DataType::float32);
  return seconds(wide, context);
}

Verdict hierarchical_can_run(const PlanQuery& query, const PlanContext& context) {
  Verdict inside = peer_models::can_reduce_by_host(query, context);
  return inside.ok ? can_run(query, context) : inside;
}

double hierarchical_seconds(const PlanQuery& query, const PlanContext& context) {
  return peer_models::seconds_inside_hosts(query, context) +
         cost_of(figures.in(CostSetting::several_hosts), query,
                 static_cast<double>(context.layout.hosts.size()),
                 peer_models::bytes_between_hosts(context),
                 network_bandwidth(context, Interfaces::all));
}

}  // namespace

const AlgorithmModel nccl{.path = paths::nccl,
                          .method = "nccl",
                          .serves = gpu_collectives | send_and_recv,
                          .can_run = can_run,
                          .seconds = seconds,
                          .memory = MemoryKind::device};
const AlgorithmModel float32{.path = paths::nccl,
                             .method = "float32",
                             .serves = {OpType::all_reduce, OpType::reduce, OpType::reduce_scatter},
                             .can_run = float32_can_run,
                             .seconds = float32_seconds,
                             .memory = MemoryKind::device};
const AlgorithmModel hierarchical_nccl{.path = paths::cuda_p2p,
                                       .method = "hierarchical_nccl",
                                       .serves = {OpType::all_reduce},
                                       .can_run = hierarchical_can_run,
                                       .seconds = hierarchical_seconds,
                                       .memory = MemoryKind::device,
                                       .needs_kernels = true};

}  // namespace hymn::nccl_models
