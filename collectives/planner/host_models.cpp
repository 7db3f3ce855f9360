// Paths that read and write host memory.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/hierarchical/hierarchy.hpp"
#include "collectives/hierarchical/piece_plan.hpp"
#include "collectives/planner/links.hpp"
#include "collectives/planner/models.hpp"

namespace hymn {
namespace {

// The most elements of a block that one call of MPI can count, by default.
constexpr std::size_t mpi_block_limit = std::size_t{1} << 30;

CostSetting setting_of(const PlanContext& context) {
  if (!context.layout.one_host()) return CostSetting::several_hosts;
  return context.layout.oversubscribed() ? CostSetting::oversubscribed : CostSetting::one_host;
}

// What crosses the interface of the fullest host when each rank talks to each, for each byte that
// a rank moves: the part that goes to other hosts, times the ranks that share the interface.
double shared_interface(const PlanContext& context) {
  const double here = context.layout.largest_host();
  const double all = context.layout.size;
  return here * (all - here) / (all - 1);
}

bool shares_cores(const PlanContext& context) {
  return context.layout.one_host() && context.layout.oversubscribed();
}

// As rounds_on_cores(); the rows for it are those of four ranks.
double bytes_on_cores(OpType type, const PlanContext& context) {
  const double moved = bytes_moved(type, context.layout.size);
  return shares_cores(context) ? moved * context.layout.size / 4 : moved;
}

double pairwise_seconds(std::string_view path, const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const CostRow& row = cost_row(path, "pairwise", setting_of(context));
  double bandwidth = 0;
  if (!context.layout.one_host())
    bandwidth = network_bandwidth(context, Interfaces::widest) / shared_interface(context);
  return cost_of(row, query, rounds_on_cores(pairwise_messages(query.type, ranks), context),
                 bytes_on_cores(query.type, context), bandwidth);
}

}  // namespace

Verdict needs_host_memory(const PlanQuery& query) {
  if (!is_on_device(query)) return Verdict::yes();
  return Verdict::no(query.type == OpType::barrier ? "it is ordered by a stream"
                                                   : "the buffers are in device memory");
}

double rounds_on_cores(double rounds, const PlanContext& context) {
  return shares_cores(context) ? std::max<double>(rounds, context.layout.size - 1) : rounds;
}

double cost_of(const CostRow& row, const PlanQuery& query, double rounds, double moved,
               double bandwidth) {
  double per_byte = reduces(query.type) ? row.per_byte_reduced : row.per_byte_moved;
  if (row.link_share > 0 && bandwidth > 0) per_byte += 1 / (bandwidth * row.link_share);
  return row.start + rounds * row.per_round + moved * static_cast<double>(query.bytes) * per_byte;
}

Verdict threads_can_run(const PlanQuery& query, const PlanContext&) {
  return needs_host_memory(query);
}

double threads_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const CostSetting setting =
      context.layout.oversubscribed() ? CostSetting::oversubscribed : CostSetting::one_host;
  return cost_of(cost_row("threads", "direct", setting), query, tree_rounds(ranks),
                 bytes_moved(query.type, ranks), 0);
}

Verdict mpi_can_run(const PlanQuery& query, const PlanContext& context) {
  const std::size_t element = size_of(query.dtype);
  if (has_blocks(query.type) && element > 0 &&
      query.bytes / element / static_cast<std::size_t>(context.layout.size) > mpi_block_limit)
    return Verdict::no(fmt::format("more than {} elements for one MPI call", mpi_block_limit));
  return needs_host_memory(query);
}

double mpi_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const CostRow& row = cost_row("mpi", "mpi", setting_of(context));
  double bandwidth = 0;
  if (!context.layout.one_host()) {
    bandwidth = network_bandwidth(context, Interfaces::widest);
    // A ring or tree crosses the interface once; what is meant for one rank alone must cross it.
    if (is_personal(query.type)) bandwidth /= shared_interface(context);
  }
  return cost_of(row, query, rounds_on_cores(tree_rounds(ranks), context),
                 bytes_on_cores(query.type, context), bandwidth);
}

Verdict messages_can_run(const PlanQuery& query, const PlanContext&) {
  return needs_host_memory(query);
}

double mpi_p2p_seconds(const PlanQuery& query, const PlanContext& context) {
  return pairwise_seconds("mpi_p2p", query, context);
}

double exchange_seconds(const PlanQuery& query, const PlanContext& context) {
  return pairwise_seconds("exchange", query, context);
}

Verdict hierarchical_can_run(const PlanQuery& query, const PlanContext& context) {
  if (context.layout.one_host()) return Verdict::no("all ranks are on one host");
  if (context.layout.largest_host() < 2) return Verdict::no("every rank is alone on its host");
  if (!PiecePlan::serves(query.type))
    return Verdict::no(
        fmt::format("{} has nothing to combine inside a host", to_string(query.type)));
  return needs_host_memory(query);
}

// As collectives/hierarchical/piece_plan.hpp has it: each leader tells those of all other hosts,
// the whole in one step or parts in two. Inside a host each byte is copied in and out, and the
// leaders share the folding; but for the first piece that goes on while others cross.
double hierarchical_seconds(const PlanQuery& query, const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  const auto others = static_cast<double>(layout.hosts.size() - 1);
  const bool in_blocks = has_blocks(query.type);
  const bool whole = !in_blocks && (others < 2 || static_cast<double>(query.bytes) * others <=
                                                      double{PiecePlan::few_bytes});
  const double steps = whole || in_blocks ? 1 : 2;
  double crossing = steps * others / (others + 1);
  if (whole) crossing = others;
  if (!whole && has_root(query.type)) crossing = 1;
  const CostSetting setting =
      layout.oversubscribed() ? CostSetting::oversubscribed : CostSetting::one_host;
  double copies = 2;
  if (reduces(query.type))
    copies += static_cast<double>(layout.largest_host()) /
              std::min(HostMap::most_leaders, layout.smallest_host());
  const double within = cost_of(cost_row("shm", "slots", setting), query, 2, copies, 0);
  const double between =
      cost_of(cost_row("mpi", "mpi", CostSetting::several_hosts), query, steps * others, crossing,
              network_bandwidth(context, Interfaces::widest));
  const double pieces =
      std::max(1.0, static_cast<double>(query.bytes) / static_cast<double>(Hierarchy::large_bytes));
  return std::max(within, between) + std::min(within, between) / pieces;
}

}  // namespace hymn
