// The algorithms over the shared memory of one host.
#include <fmt/format.h>

#include "collectives/planner/models.hpp"

namespace hymn {
namespace {

/// What a cost row is asked for: where cores are shared, every rank's steps and bytes come one
/// after another on them.
struct Effort {
  double rounds;
  double bytes;  ///< times the size of the operation
};

Effort effort_of(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  if (context.layout.oversubscribed())
    return {static_cast<double>(ranks - 1), static_cast<double>(ranks)};
  return {tree_rounds(ranks), bytes_moved(query.type, ranks)};
}

double seconds(std::string_view method, const PlanQuery& query, const PlanContext& context,
               Effort effort) {
  const CostSetting setting =
      context.layout.oversubscribed() ? CostSetting::oversubscribed : CostSetting::one_host;
  return cost_of(cost_row("shm", method, setting), query, effort.rounds, effort.bytes, 0);
}

}  // namespace

Verdict shm_can_run(const PlanQuery& query, const PlanContext& context) {
  if (!context.layout.one_host())
    return Verdict::no(fmt::format("the ranks are on {} hosts", context.layout.hosts.size()));
  if (context.layout.size < 2) return Verdict::no("one rank alone shares nothing");
  return needs_host_memory(query);
}

Verdict shm_one_shot_can_run(const PlanQuery& query, const PlanContext& context) {
  Verdict verdict = shm_can_run(query, context);
  if (verdict.ok && query.bytes > 4096) return Verdict::no("more than the 4096 bytes of a slot");
  return verdict;
}

Verdict shm_swapped_can_run(const PlanQuery& query, const PlanContext& context) {
  Verdict verdict = shm_can_run(query, context);
  if (!verdict.ok) return verdict;
  if (context.layout.size > 2) return Verdict::no("it works only with two members");
  if (query.bytes > 16384) return Verdict::no("more than the 16384 bytes of a slot");
  return verdict;
}

// What each shows is a part of an all_gather, and all of the others.
Verdict shm_shown_can_run(const PlanQuery& query, const PlanContext& context) {
  PlanQuery shown = query;
  if (query.type == OpType::all_gather && context.layout.size > 1)
    shown.bytes /= static_cast<std::size_t>(context.layout.size);
  return context.layout.size == 2 ? shm_swapped_can_run(shown, context)
                                  : shm_one_shot_can_run(shown, context);
}

bool shm_shown_serve(OpType type) {
  return type == OpType::all_gather || type == OpType::reduce_scatter || type == OpType::all_to_all;
}

Verdict shm_scatter_can_run(const PlanQuery& query, const PlanContext& context) {
  const Verdict verdict = shm_can_run(query, context);
  if (verdict.ok && query.bytes > 512)
    return Verdict::no("all blocks together are more than 512 bytes");
  return verdict;
}

bool shm_slots_serve(OpType type) {
  return type == OpType::broadcast || type == OpType::reduce || type == OpType::all_gather ||
         type == OpType::reduce_scatter;
}

bool shm_flags_serve(OpType type) { return type == OpType::barrier; }

bool shm_rings_serve(OpType type) { return is_personal(type); }

// Everybody folds all inputs.
double shm_one_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  Effort effort = effort_of(query, context);
  const double ranks = context.layout.size;
  effort.bytes = context.layout.oversubscribed() ? ranks * ranks : ranks - 1;
  return seconds("one_shot", query, context, effort);
}
double shm_swapped_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds("swapped", query, context, effort_of(query, context));
}
// All bytes are written to a slot once, and read once.
double shm_shown_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds(context.layout.size == 2 ? "swapped" : "one_shot", query, context,
                 effort_of(query, context));
}
double shm_sharing_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds("sharing", query, context, effort_of(query, context));
}
double shm_two_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds("two_shot", query, context, effort_of(query, context));
}
double shm_slots_seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds("slots", query, context, effort_of(query, context));
}
double shm_messages_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const double sharers = context.layout.oversubscribed() ? ranks : 1;
  return seconds("messages", query, context,
                 {rounds_on_cores(pairwise_messages(query.type, ranks), context),
                  sharers * bytes_moved(query.type, ranks)});
}

}  // namespace hymn
