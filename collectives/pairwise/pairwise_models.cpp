#include "collectives/pairwise/pairwise_models.hpp"

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/links.hpp"
#include "collectives/costs/traffic.hpp"

namespace hymn::pairwise_models {
namespace {

constexpr MethodCost mpi_messages("mpi_p2p", "pairwise");
constexpr MethodCost over_sockets("tcp", "pairwise");
constexpr MethodCost exchanged("exchange", "pairwise");

Verdict can_run(const PlanQuery& query, const PlanContext&) { return host_can_do(query); }

template <const MethodCost& cost>
double seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  double bandwidth = 0;
  if (!context.layout.one_host())
    bandwidth = network_bandwidth(context, Interfaces::widest) / shared_interface(context);
  return cost_of(cost.in(setting_of(context)), query,
                 rounds_on_cores(pairwise_messages(query, ranks), context),
                 bytes_on_cores(query.type, context), bandwidth);
}

constexpr OpTypes all = usual_collectives | all_of_messages;

}  // namespace

const AlgorithmModel over_mpi{.path = paths::mpi_p2p,
                              .method = "pairwise",
                              .serves = all,
                              .can_run = can_run,
                              .seconds = seconds<mpi_messages>};
const AlgorithmModel over_tcp{.path = paths::tcp,
                              .method = "pairwise",
                              .serves = all,
                              .can_run = can_run,
                              .seconds = seconds<over_sockets>};
const AlgorithmModel over_exchange{.path = paths::exchange,
                                   .method = "pairwise",
                                   .serves = all,
                                   .can_run = can_run,
                                   .seconds = seconds<exchanged>};

}  // namespace hymn::pairwise_models
