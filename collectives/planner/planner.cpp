#include "collectives/planner/planner.hpp"

#include <array>

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_models.hpp"
#include "collectives/hierarchical/hierarchical_model.hpp"
#include "collectives/inprocess/inprocess_model.hpp"
#include "collectives/mpi/mpi_model.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/planner/peer_use.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "collectives/shm/shm_models.hpp"
#include "collectives/staged/staged_model.hpp"

namespace hymn {
namespace {

constexpr std::array models = {
    &peer_models::one_shot,
    &peer_models::two_shot,
    &peer_models::windows,
    &nccl_models::hierarchical_nccl,
    &peer_models::hierarchical_staged,
    &nccl_models::nccl,
    &nccl_models::float32,
    &shm_models::one_shot,
    &shm_models::swapped,
    &shm_models::sharing,
    &shm_models::two_shot,
    &shm_models::shown,
    &shm_models::scan_slots,
    &shm_models::scatter_slots,
    &shm_models::slots,
    &shm_models::flags,
    &shm_models::rings,
    &shm_models::pairwise,
    &hierarchical_model,
    &inprocess_model,
    &mpi_model,
    &pairwise_models::over_mpi,
    &pairwise_models::over_tcp,
    &pairwise_models::over_exchange,
    &staged_model,
};

// A barrier on a stream is not to hold up the host, as what is staged does, however fast it is.
bool spares_the_host(const AlgorithmModel& model, const PlanQuery& query) {
  return query.type == OpType::barrier && is_on_device(query) && &model != &staged_model;
}

}  // namespace

std::span<const AlgorithmModel* const> algorithm_models() { return models; }

bool is_in_this_build(const AlgorithmModel& model) {
  static const bool has_kernels = !cuda::kernel_image().empty();
  return has_kernels || !model.needs_kernels;
}

std::optional<double> measured_seconds(const AlgorithmModel& model, const PlanQuery& query,
                                       const PlanContext& context) {
  if (context.tuning == nullptr) return std::nullopt;
  const MemoryKind memory = is_on_device(query) ? MemoryKind::device : MemoryKind::host;
  return context.tuning->seconds(model.path, model.name_for(query.type), query.type, query.dtype,
                                 context.layout.size, static_cast<int>(context.layout.hosts.size()),
                                 query.bytes, memory);
}

Cost predict(const AlgorithmModel& model, const PlanQuery& query, const PlanContext& context) {
  if (context.layout.hosts.empty()) return {};
  const bool settled = is_settled(model, query, context) || spares_the_host(model, query);
  if (const auto measured = measured_seconds(model, query, context))
    return {*measured, "tuned on " + context.tuning->measured, settled};
  return {model.seconds(query, context), "default table", settled};
}

bool is_faster(const Cost& cost, const Cost& other) {
  if (cost.is_settled != other.is_settled) return cost.is_settled;
  return cost.seconds > 0 && other.seconds > 0 && cost.seconds < other.seconds;
}

}  // namespace hymn
