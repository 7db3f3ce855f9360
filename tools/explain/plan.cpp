#include "tools/explain/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/paths.hpp"
#include "collectives/planner/peer_use.hpp"

namespace hymn {

namespace {

// What the planner cannot see: whether the ranks are threads or processes.
Verdict suits_ranks(const AlgorithmModel& model, const PlanTask& task) {
  const bool threads = task.threads;
  const int sharers = task.context.layout.most_gpu_sharers();
  if (!threads && model.path == paths::cuda_p2p && sharers > 1)
    return Verdict::no(fmt::format("{} ranks share one GPU, where processes take turns", sharers));
  if (!threads && model.path == paths::threads)
    return Verdict::no("the ranks are processes, not threads of one");
  if (model.path == paths::tcp)
    return Verdict::no("only worlds without MPI have connections of their own");
  const bool by_mpi = model.path == paths::mpi || model.path == paths::mpi_p2p;
  if (threads && by_mpi) return Verdict::no("the ranks are threads of one process");
  return Verdict::yes();
}

PlanOption option_of(const AlgorithmModel& model, const PlanTask& task, const PlanQuery& query) {
  PlanOption option;
  option.path = model.path;
  option.algorithm = model.name_for(query.type);
  option.in_this_build = is_in_this_build(model);
  Verdict verdict = suits_ranks(model, task);
  if (verdict.ok) verdict = model.can_run(query, task.context);
  option.can_run = verdict.ok;
  option.reason = std::move(verdict.reason);
  if (!option.can_run) return option;
  const Cost cost = predict(model, query, task.context);
  option.first_us = option.last_us = cost.seconds * 1e6;
  option.source = cost.source;
  option.is_settled = cost.is_settled;
  option.held_back = held_back(model, query, task.context);
  return option;
}

// As the selector chooses.
int best_of(const std::vector<PlanOption>& options, bool only_open) {
  const auto cost = [](const PlanOption& option) {
    return Cost{option.first_us, "", option.is_settled};
  };
  int best = -1;
  for (int i = 0; i < static_cast<int>(options.size()); ++i) {
    const PlanOption& option = options[static_cast<std::size_t>(i)];
    if (!option.can_run || (only_open && !option.is_open())) continue;
    if (best < 0 || is_faster(cost(option), cost(options[static_cast<std::size_t>(best)])))
      best = i;
  }
  return best;
}

PlanRange range_at(const PlanTask& task, std::size_t bytes) {
  PlanQuery query = task.query;
  query.bytes = bytes;
  PlanRange range;
  range.first_bytes = range.last_bytes = bytes;
  for (const AlgorithmModel* model : algorithm_models())
    if (model->serves.contains(query.type)) range.options.push_back(option_of(*model, task, query));
  range.build = best_of(range.options, true);
  range.planned = best_of(range.options, false);
  return range;
}

bool is_alike(const PlanRange& a, const PlanRange& b) {
  return a.build == b.build && a.planned == b.planned &&
         std::equal(a.options.begin(), a.options.end(), b.options.begin(), b.options.end(),
                    [](const PlanOption& x, const PlanOption& y) {
                      return x.can_run == y.can_run && x.reason == y.reason &&
                             x.held_back == y.held_back && x.source == y.source;
                    });
}

}  // namespace

std::vector<PlanRange> plan_ranges(const PlanTask& task) {
  if (task.query.type == OpType::barrier) return {range_at(task, 0)};
  std::vector<PlanRange> ranges;
  const std::size_t unit = size_of(task.query.dtype);
  const std::size_t least = std::max(task.min_bytes, unit);
  if (std::bit_ceil(least) > task.max_bytes) return {range_at(task, least / unit * unit)};
  for (std::size_t bytes = std::bit_ceil(least); bytes <= task.max_bytes; bytes *= 2) {
    PlanRange next = range_at(task, bytes);
    if (ranges.empty() || !is_alike(ranges.back(), next)) {
      ranges.push_back(std::move(next));
      continue;
    }
    ranges.back().last_bytes = bytes;
    for (std::size_t i = 0; i < next.options.size(); ++i)
      ranges.back().options[i].last_us = next.options[i].last_us;
  }
  return ranges;
}

}  // namespace hymn
