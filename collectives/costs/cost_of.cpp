#include "collectives/costs/cost_of.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/costs/traffic.hpp"
#include "collectives/reduce/reducer.hpp"

namespace hymn {
namespace {

bool shares_cores(const PlanContext& context) {
  return context.layout.one_host() && context.layout.oversubscribed();
}

}  // namespace

Verdict needs_host_memory(const PlanQuery& query) {
  if (!is_on_device(query)) return Verdict::yes();
  return Verdict::no(query.type == OpType::barrier ? "it is ordered by a stream"
                                                   : "the buffers are in device memory");
}

Verdict needs_device_memory(const PlanQuery& query) {
  if (is_on_device(query)) return Verdict::yes();
  return Verdict::no(query.type == OpType::barrier ? "it is not ordered by a stream"
                                                   : "the buffers are in host memory");
}

Verdict needs_gpus(const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (layout.ranks_without_gpu() == 0) return Verdict::yes();
  return Verdict::no(
      fmt::format("{} of {} ranks have no GPU", layout.ranks_without_gpu(), layout.size));
}

Verdict host_can_do(const PlanQuery& query) {
  Verdict memory = needs_host_memory(query);
  if (!memory.ok || !reduces(query.type)) return memory;
  std::string reason = refusal(query.dtype, query.op);
  return reason.empty() ? Verdict::yes() : Verdict::no(std::move(reason));
}

CostSetting setting_of(const PlanContext& context) {
  return context.layout.one_host() ? setting_on_host(context) : CostSetting::several_hosts;
}

CostSetting setting_on_host(const PlanContext& context) {
  return context.layout.oversubscribed() ? CostSetting::oversubscribed : CostSetting::one_host;
}

double cost_of(const CostRow& row, const PlanQuery& query, double rounds, double moved,
               double bandwidth) {
  double per_byte = reduces(query.type) ? row.per_byte_reduced : row.per_byte_moved;
  if (row.link_share > 0 && bandwidth > 0) per_byte += 1 / (bandwidth * row.link_share);
  return row.start + rounds * row.per_round + moved * static_cast<double>(query.bytes) * per_byte;
}

double rounds_on_cores(double rounds, const PlanContext& context) {
  return shares_cores(context) ? std::max<double>(rounds, context.layout.size - 1) : rounds;
}

// The rows for it are those of four ranks.
double bytes_on_cores(OpType type, const PlanContext& context) {
  const double moved = bytes_moved(type, context.layout.size);
  return shares_cores(context) ? moved * context.layout.size / 4 : moved;
}

double shared_interface(const PlanContext& context) {
  const double here = context.layout.largest_host();
  const double all = context.layout.size;
  return here * (all - here) / (all - 1);
}

}  // namespace hymn
