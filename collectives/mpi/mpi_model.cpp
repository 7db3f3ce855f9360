#include "collectives/mpi/mpi_model.hpp"

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/links.hpp"
#include "collectives/costs/traffic.hpp"
#include "collectives/mpi/mpi_reduction.hpp"

namespace hymn {
namespace mpi_costs {
namespace {

constexpr MethodCost figures("mpi", "mpi");

Verdict can_run(const PlanQuery& query, const PlanContext& context) {
  if (reduces(query.type))
    if (Verdict ranks = mpi_can_reduce_among(context.layout.size); !ranks.ok) return ranks;
  const std::size_t element = size_of(query.dtype);
  if (has_blocks(query.type) && element > 0) {
    const std::size_t block = query.bytes / element / static_cast<std::size_t>(context.layout.size);
    if (Verdict fits = fits_one_call(block, MpiChannel::usual_chunk_limit); !fits.ok) return fits;
  }
  return host_can_do(query);
}

double seconds(const PlanQuery& query, const PlanContext& context) {
  double bandwidth = 0;
  if (!context.layout.one_host()) {
    bandwidth = network_bandwidth(context, Interfaces::widest);
    // A ring or tree crosses the interface once; what is meant for one rank alone must cross it.
    if (is_personal(query.type)) bandwidth /= shared_interface(context);
  }
  return cost_of(figures.in(setting_of(context)), query,
                 rounds_on_cores(tree_rounds(context.layout.size), context),
                 bytes_on_cores(query.type, context), bandwidth);
}

}  // namespace
}  // namespace mpi_costs

const AlgorithmModel mpi_model{.path = paths::mpi,
                               .method = "mpi",
                               .serves = usual_collectives,
                               .can_run = mpi_costs::can_run,
                               .seconds = mpi_costs::seconds};

}  // namespace hymn
