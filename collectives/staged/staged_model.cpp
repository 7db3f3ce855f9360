#include "collectives/staged/staged_model.hpp"

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/mpi/mpi_model.hpp"

namespace hymn {
namespace staged_costs {
namespace {

constexpr MethodCost figures("staged", "staged");

Verdict can_run(const PlanQuery& query, const PlanContext&) {
  if (query.type != OpType::barrier && !is_on_device(query))
    return Verdict::no("the buffers are in host memory: nothing to copy");
  if (Verdict memory = needs_device_memory(query); !memory.ok) return memory;
  PlanQuery copied = query;
  copied.memory = MemoryKind::host;
  return host_can_do(copied);
}

// MPI stands for whatever carries it in the end.
double seconds(const PlanQuery& query, const PlanContext& context) {
  return mpi_model.seconds(query, context) +
         cost_of(figures.in(CostSetting::one_host), query, 0, 1, 0);
}

}  // namespace
}  // namespace staged_costs

const AlgorithmModel staged_model{.path = paths::staged,
                                  .method = "staged",
                                  .serves = gpu_collectives | send_and_recv,
                                  .can_run = staged_costs::can_run,
                                  .seconds = staged_costs::seconds,
                                  .memory = MemoryKind::device};

}  // namespace hymn
