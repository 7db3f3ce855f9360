#include "collectives/hierarchical/piece_plan.hpp"

#include <algorithm>

namespace hymn {
namespace {

// A call is cut into so many pieces at least, so that folding one overlaps with sending another,
constexpr std::size_t pieces_to_overlap = 4;
// unless they would become so small that each message costs more than what it carries.
constexpr std::size_t least_piece_bytes = 65536;

std::size_t block_count(const Request& request, const HostMap& map) {
  const std::size_t count = request.inputs.flat().count;  // of a barrier: 0
  return has_input_blocks(request.type) ? count / static_cast<std::size_t>(map.members()) : count;
}

void plan_host_steps(PiecePlan& plan, int root_host, bool few) {
  plan.gather.used = plan.type != OpType::all_gather;
  plan.spread.used = plan.type == OpType::all_gather || !(few || has_blocks(plan.type));
  plan.parts = has_blocks(plan.type) ? PiecePlan::Parts::of_members
               : few                 ? PiecePlan::Parts::whole
                                     : PiecePlan::Parts::even;
  plan.partless = root_host;
  plan.gather.onward = is_prefix(plan.type);
  if (plan.type == OpType::broadcast) {
    plan.gather.only_from = root_host;
    plan.spread.not_to = root_host;
  }
  if (plan.type == OpType::reduce) (few ? plan.gather : plan.spread).only_to = root_host;
}

}  // namespace

std::size_t PiecePlan::bytes_of(const Request& request, const HostMap& map, std::size_t unit) {
  const auto blocks = static_cast<std::size_t>(has_blocks(request.type) ? map.members() : 1);
  return block_count(request, map) * blocks * unit;
}

PiecePlan PiecePlan::make(const Request& request, const HostMap& map, int root, std::size_t unit,
                          std::size_t slot_bytes) {
  PiecePlan plan;
  plan.type = request.type;
  plan.cuts_input = has_input_blocks(request.type);
  plan.cuts_output = has_output_blocks(request.type);
  plan.blocks = has_blocks(request.type) ? map.members() : 1;
  plan.count = block_count(request, map);
  const std::size_t bytes = bytes_of(request, map, unit);
  const std::size_t wanted =
      std::clamp(bytes / pieces_to_overlap, std::min(least_piece_bytes, slot_bytes), slot_bytes);
  plan.each = std::max<std::size_t>(wanted / (unit * static_cast<std::size_t>(plan.blocks)), 1);
  plan.pieces = request.type == OpType::barrier ? 1 : (plan.count + plan.each - 1) / plan.each;
  const auto others = static_cast<std::size_t>(map.hosts() - 1);
  const bool few = others < 2 || is_prefix(request.type) || bytes * others <= PiecePlan::few_bytes;
  plan_host_steps(plan, root < 0 ? -1 : map.host_of(root), few);
  return plan;
}

Slice PiecePlan::part(std::size_t piece, int host, const HostMap& map) const {
  const std::size_t length = this->length(piece);
  switch (parts) {
    case Parts::whole:
      return {0, length};
    case Parts::even:
      if (partless < 0) return even_slice(length, host, map.hosts());
      if (host == partless) return {};
      return even_slice(length, host < partless ? host : host - 1, map.hosts() - 1);
    case Parts::of_members:
      break;
  }
  const std::size_t run = elements(piece).count;
  return {static_cast<std::size_t>(map.first(host)) * run,
          static_cast<std::size_t>(map.members_on(host)) * run};
}

}  // namespace hymn
