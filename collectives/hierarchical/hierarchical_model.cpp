#include "collectives/hierarchical/hierarchical_model.hpp"

#include <algorithm>

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/links.hpp"
#include "collectives/hierarchical/hierarchy.hpp"
#include "collectives/hierarchical/piece_plan.hpp"

namespace hymn {
namespace hierarchical_costs {
namespace {

// It is the sum of its parts.
constexpr MethodCost inside_hosts("shm", "slots");
constexpr MethodCost between_hosts("mpi", "mpi");

Verdict can_run(const PlanQuery& query, const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (layout.one_host()) return Verdict::no("all ranks are on one host");
  if (layout.largest_host() < 2) return Verdict::no("every rank is alone on its host");
  if (has_blocks(query.type))
    if (Verdict blocks = Hierarchy::has_room_for_blocks(layout.size); !blocks.ok) return blocks;
  Verdict verdict = host_can_do(query);
  if (verdict.ok && is_prefix(query.type)) return Hierarchy::can_scan(layout.in_rank_order);
  return verdict;
}

// As collectives/hierarchical/piece_plan.hpp has it: each leader tells those of all other hosts,
// the whole in one step or parts in two. Inside a host each byte is copied in and out, and the
// leaders share the folding; but for the first piece that goes on while others cross.
double seconds(const PlanQuery& query, const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  const auto others = static_cast<double>(layout.hosts.size() - 1);
  const bool in_blocks = has_blocks(query.type);
  const bool whole =
      !in_blocks && (others < 2 || is_prefix(query.type) ||
                     static_cast<double>(query.bytes) * others <= double{PiecePlan::few_bytes});
  const double steps = whole || in_blocks ? 1 : 2;
  double crossing = steps * others / (others + 1);
  if (whole) crossing = others;
  if (!whole && has_root(query.type)) crossing = 1;
  double copies = 2;
  if (reduces(query.type))
    copies += static_cast<double>(layout.largest_host()) /
              std::min(HostMap::most_leaders, layout.smallest_host());
  // The last member there folds all inputs once more, for itself.
  if (is_prefix(query.type)) copies += layout.largest_host();
  const double within = cost_of(inside_hosts.in(setting_on_host(context)), query, 2, copies, 0);
  const double between =
      cost_of(between_hosts.in(CostSetting::several_hosts), query, steps * others, crossing,
              network_bandwidth(context, Interfaces::widest));
  const double pieces =
      std::max(1.0, static_cast<double>(query.bytes) / static_cast<double>(Hierarchy::large_bytes));
  return std::max(within, between) + std::min(within, between) / pieces;
}

}  // namespace
}  // namespace hierarchical_costs

// Where there is something to combine, or to copy just once, inside each host.
const AlgorithmModel hierarchical_model{
    .path = paths::hierarchical,
    .method = "hierarchical",
    .serves = {OpType::all_reduce, OpType::reduce, OpType::reduce_scatter, OpType::broadcast,
               OpType::all_gather, OpType::scan, OpType::exscan, OpType::barrier},
    .can_run = hierarchical_costs::can_run,
    .seconds = hierarchical_costs::seconds};

}  // namespace hymn
