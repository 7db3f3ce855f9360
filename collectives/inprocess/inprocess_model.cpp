#include "collectives/inprocess/inprocess_model.hpp"

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/traffic.hpp"

namespace hymn {
namespace inprocess_costs {
namespace {

constexpr MethodCost figures("threads", "direct");

Verdict can_run(const PlanQuery& query, const PlanContext&) { return host_can_do(query); }

double seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  return cost_of(figures.in(setting_on_host(context)), query, tree_rounds(ranks),
                 bytes_moved(query.type, ranks), 0);
}

}  // namespace
}  // namespace inprocess_costs

const AlgorithmModel inprocess_model{.path = paths::threads,
                                     .method = "direct",
                                     .serves = usual_collectives,
                                     .can_run = inprocess_costs::can_run,
                                     .seconds = inprocess_costs::seconds};

}  // namespace hymn
