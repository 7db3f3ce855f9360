#include "collectives/hierarchical/cut.hpp"

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

void set_crossings(Cut& cut, int root_host, bool few) {
  cut.gather.used = cut.type != OpType::all_gather;
  cut.spread.used = cut.type == OpType::all_gather || !(few || has_blocks(cut.type));
  cut.parts = has_blocks(cut.type) ? Cut::Parts::of_members
              : few                ? Cut::Parts::whole
                                   : Cut::Parts::even;
  cut.partless = root_host;
  if (cut.type == OpType::broadcast) {
    cut.gather.only_from = root_host;
    cut.spread.not_to = root_host;
  }
  if (cut.type == OpType::reduce) (few ? cut.gather : cut.spread).only_to = root_host;
}

}  // namespace

bool Cut::serves(OpType type) {
  return type == OpType::all_reduce || type == OpType::reduce || type == OpType::reduce_scatter ||
         type == OpType::broadcast || type == OpType::all_gather || type == OpType::barrier;
}

std::size_t Cut::bytes_of(const Request& request, const HostMap& map, std::size_t unit) {
  const auto blocks = static_cast<std::size_t>(has_blocks(request.type) ? map.members() : 1);
  return block_count(request, map) * blocks * unit;
}

Cut Cut::make(const Request& request, const HostMap& map, int root, std::size_t unit,
              std::size_t slot_bytes) {
  Cut cut;
  cut.type = request.type;
  cut.cuts_input = has_input_blocks(request.type);
  cut.cuts_output = has_output_blocks(request.type);
  cut.blocks = has_blocks(request.type) ? map.members() : 1;
  cut.count = block_count(request, map);
  const std::size_t bytes = bytes_of(request, map, unit);
  const std::size_t wanted =
      std::clamp(bytes / pieces_to_overlap, std::min(least_piece_bytes, slot_bytes), slot_bytes);
  cut.each = std::max<std::size_t>(wanted / (unit * static_cast<std::size_t>(cut.blocks)), 1);
  cut.pieces = request.type == OpType::barrier ? 1 : (cut.count + cut.each - 1) / cut.each;
  const auto others = static_cast<std::size_t>(map.hosts() - 1);
  const bool few = others < 2 || bytes * others <= Cut::few_bytes;
  set_crossings(cut, root < 0 ? -1 : map.host_of(root), few);
  return cut;
}

Slice Cut::part(std::size_t piece, int host, const HostMap& map) const {
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
