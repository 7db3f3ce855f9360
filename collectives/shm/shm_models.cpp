#include "collectives/shm/shm_models.hpp"

#include <fmt/format.h>

#include "base/paths.hpp"
#include "collectives/costs/cost_of.hpp"
#include "collectives/costs/traffic.hpp"
#include "collectives/shm/shm_limits.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn::shm_models {
namespace {

using namespace shm_limits;

constexpr MethodCost one_shot_cost("shm", "one_shot");
constexpr MethodCost swapped_cost("shm", "swapped");
constexpr MethodCost sharing_cost("shm", "sharing");
constexpr MethodCost two_shot_cost("shm", "two_shot");
constexpr MethodCost slots_cost("shm", "slots");
constexpr MethodCost messages_cost("shm", "messages");

// --- Who can run what ---

Verdict can_share(const PlanQuery& query, const PlanContext& context) {
  if (!context.layout.one_host())
    return Verdict::no(fmt::format("the ranks are on {} hosts", context.layout.hosts.size()));
  if (context.layout.size < 2) return Verdict::no("one rank alone shares nothing");
  return host_can_do(query);
}

Verdict can_fold(const PlanQuery& query, const PlanContext& context) {
  return first_no({can_share(query, context), can_look_at_all(context.layout.size)});
}

Verdict can_show(const PlanQuery& query, const PlanContext& context) {
  return first_no({can_fold(query, context), fits_slot(query.bytes, one_shot_slot)});
}

Verdict can_show_swapped(const PlanQuery& query, const PlanContext& context) {
  return first_no({can_share(query, context), can_swap(context.layout.size),
                   fits_slot(query.bytes, swapped_slot)});
}

// What each shows is a part of an all_gather, and all of the others.
Verdict can_exchange(const PlanQuery& query, const PlanContext& context) {
  PlanQuery shown_query = query;
  if (query.type == OpType::all_gather && context.layout.size > 1)
    shown_query.bytes /= static_cast<std::size_t>(context.layout.size);
  return context.layout.size == 2 ? can_show_swapped(shown_query, context)
                                  : can_show(shown_query, context);
}

Verdict can_use_slots(const PlanQuery& query, const PlanContext& context) {
  return first_no({can_share(query, context), can_have_rings(context.layout.size)});
}

Verdict can_scatter(const PlanQuery& query, const PlanContext& context) {
  return first_no({can_use_slots(query, context), fits_at_once(query.bytes)});
}

// --- How long it takes ---

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

double seconds_for(const MethodCost& cost, const PlanQuery& query, const PlanContext& context,
                   Effort effort) {
  return cost_of(cost.in(setting_on_host(context)), query, effort.rounds, effort.bytes, 0);
}

template <const MethodCost& cost>
double seconds(const PlanQuery& query, const PlanContext& context) {
  return seconds_for(cost, query, context, effort_of(query, context));
}

// Everybody folds all inputs.
double one_shot_seconds(const PlanQuery& query, const PlanContext& context) {
  Effort effort = effort_of(query, context);
  const double ranks = context.layout.size;
  effort.bytes = context.layout.oversubscribed() ? ranks * ranks : ranks - 1;
  return seconds_for(one_shot_cost, query, context, effort);
}

// The last folds all inputs; the others as many as there are before them.
double scan_seconds(const PlanQuery& query, const PlanContext& context) {
  Effort effort = effort_of(query, context);
  const double ranks = context.layout.size;
  effort.bytes = context.layout.oversubscribed() ? ranks * ranks / 2 : ranks - 1;
  return seconds_for(slots_cost, query, context, effort);
}

// All bytes are written to a slot once, and read once.
double shown_seconds(const PlanQuery& query, const PlanContext& context) {
  return context.layout.size == 2 ? seconds<swapped_cost>(query, context)
                                  : seconds<one_shot_cost>(query, context);
}

double pairwise_seconds(const PlanQuery& query, const PlanContext& context) {
  const int ranks = context.layout.size;
  const double sharers = context.layout.oversubscribed() ? ranks : 1;
  return seconds_for(messages_cost, query, context,
                     {rounds_on_cores(pairwise_messages(query, ranks), context),
                      sharers * bytes_moved(query.type, ranks)});
}

}  // namespace

const AlgorithmModel one_shot{.path = paths::shm,
                              .method = "one_shot",
                              .serves = {OpType::all_reduce},
                              .can_run = can_show,
                              .seconds = one_shot_seconds};
const AlgorithmModel swapped{.path = paths::shm,
                             .method = "swapped",
                             .serves = {OpType::all_reduce},
                             .can_run = can_show_swapped,
                             .seconds = seconds<swapped_cost>};
const AlgorithmModel shown{
    .path = paths::shm,
    .method = "shown",
    .serves = {OpType::all_gather, OpType::reduce_scatter, OpType::all_to_all},
    .can_run = can_exchange,
    .seconds = shown_seconds};
const AlgorithmModel sharing{.path = paths::shm,
                             .method = "sharing",
                             .serves = {OpType::all_reduce},
                             .can_run = can_fold,
                             .seconds = seconds<sharing_cost>};
const AlgorithmModel two_shot{.path = paths::shm,
                              .method = "two_shot",
                              .serves = {OpType::all_reduce},
                              .can_run = can_fold,
                              .seconds = seconds<two_shot_cost>};
const AlgorithmModel slots{
    .path = paths::shm,
    .method = "slots",
    .serves = {OpType::broadcast, OpType::reduce, OpType::all_gather, OpType::reduce_scatter},
    .can_run = can_use_slots,
    .seconds = seconds<slots_cost>};
const AlgorithmModel scan_slots{.path = paths::shm,
                                .method = "slots",
                                .serves = {OpType::scan, OpType::exscan},
                                .can_run = can_use_slots,
                                .seconds = scan_seconds};
const AlgorithmModel scatter_slots{.path = paths::shm,
                                   .method = "slots",
                                   .serves = {OpType::scatter},
                                   .can_run = can_scatter,
                                   .seconds = seconds<slots_cost>};
const AlgorithmModel flags{.path = paths::shm,
                           .method = "flags",
                           .serves = {OpType::barrier},
                           .can_run = can_share,
                           .seconds = seconds<slots_cost>};
const AlgorithmModel rings{
    .path = paths::shm,
    .method = "rings",
    .serves = OpTypes{OpType::gather, OpType::scatter, OpType::all_to_all} | all_of_messages,
    .can_run = can_share,
    .seconds = seconds<slots_cost>};
const AlgorithmModel pairwise{.path = paths::shm,
                              .method = "pairwise",
                              .serves = usual_collectives,
                              .can_run = can_share,
                              .seconds = pairwise_seconds};

}  // namespace hymn::shm_models
