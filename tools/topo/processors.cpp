// Lays out packages, NUMA nodes, caches and cores, and shows on them where the ranks are.
#include "tools/topo/processors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hymn {

namespace {

// Beyond these a picture cannot be read any more, and objects are counted instead.
constexpr std::size_t most_squares = 256;
constexpr std::size_t most_caches = 24;
constexpr std::size_t most_numa_nodes = 16;
constexpr std::size_t most_core_badges = 64;
constexpr std::size_t most_badges_on_many_cores = 16;

constexpr double core_size = 16;
constexpr double core_gap = 2.5;

double ideal_columns(std::size_t count, double aspect) {
  return std::sqrt(aspect * static_cast<double>(count));
}

std::string index_text(int os_index) { return os_index < 0 ? "" : fmt::format(" {}", os_index); }

}  // namespace

ProcessorBlocks::ProcessorBlocks(const Machine& machine, const std::vector<RankPlace>& places)
    : machine_(machine),
      places_(places),
      uses_(machine.cores.size()),
      homes_(places.size()),
      squares_(machine.cores.size() <= most_squares),
      most_badges_(squares_ ? most_core_badges : most_badges_on_many_cores) {
  count_uses();
  find_homes();
}

void ProcessorBlocks::count_uses() {
  for (std::size_t core = 0; core < uses_.size(); ++core)
    for (std::size_t rank = 0; rank < places_.size(); ++rank)
      if (places_[rank].cpus.intersects(machine_.cores[core].cpus)) {
        ++uses_[core].sharers;
        uses_[core].rank = static_cast<int>(rank);
      }
  if (!squares_) return;
  for (CoreUse& use : uses_) {
    if (use.sharers != 1) continue;
    Home& home = homes_[static_cast<std::size_t>(use.rank)];
    use.named = !home.on_core;
    home.on_core = true;
  }
}

int ProcessorBlocks::numa_of_core(const Core& core) const {
  if (core.numa < 0) return -1;
  const NumaNode& node = machine_.numa_nodes[static_cast<std::size_t>(core.numa)];
  return node.package == core.package ? core.numa : -1;
}

void ProcessorBlocks::find_homes() {
  for (std::size_t rank = 0; rank < places_.size(); ++rank) {
    const RankPlace& place = places_[rank];
    Home& home = homes_[rank];
    home.package = place.package;
    const auto has_cores_of_rank = [&](const Core& core) {
      return numa_of_core(core) == place.numa && core.package == place.package;
    };
    if (place.numa >= 0 &&
        std::any_of(machine_.cores.begin(), machine_.cores.end(), has_cores_of_rank))
      home.numa = place.numa;
  }
}

std::vector<std::size_t> ProcessorBlocks::cores_of(int package, int numa) const {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < machine_.cores.size(); ++i)
    if (machine_.cores[i].package == package && numa_of_core(machine_.cores[i]) == numa)
      which.push_back(i);
  return which;
}

std::vector<std::size_t> ProcessorBlocks::ranks_of(int package, int numa) const {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < homes_.size(); ++i)
    if (!homes_[i].on_core && homes_[i].package == package && homes_[i].numa == numa)
      which.push_back(i);
  return which;
}

Block ProcessorBlocks::core(std::size_t index) const {
  const Core& core = machine_.cores[index];
  const CoreUse& use = uses_[index];
  Block block;
  block.kind = BlockKind::core;
  block.box = {0, 0, core_size, core_size};
  block.granted = machine_.allowed_cpus.empty() || core.cpus.intersects(machine_.allowed_cpus);
  block.sharers = use.sharers;
  block.tip = fmt::format("core{}: CPUs {}", index_text(core.os_index), core.cpus.to_string());
  if (use.sharers == 1) {
    const RankPlace& place = places_[static_cast<std::size_t>(use.rank)];
    block.tone = tone_of(place);
    block.tip += "; " + tip_of(place);
    if (use.named) {
      block.number = place.rank;
      block.label = std::to_string(place.rank);
    }
  } else if (use.sharers > 1) {
    block.label = fmt::format("×{}", use.sharers);
    block.tip += fmt::format("; shared by {} ranks", use.sharers);
  }
  return block;
}

Block ProcessorBlocks::counted_cores(const std::vector<std::size_t>& which,
                                     std::string detail) const {
  const auto used = std::count_if(which.begin(), which.end(),
                                  [&](std::size_t core) { return uses_[core].sharers > 0; });
  Block block;
  block.kind = BlockKind::cores;
  block.label = counted(which.size(), "core");
  block.detail = std::move(detail);
  if (used > 0) block.detail += fmt::format("{}{} in use", block.detail.empty() ? "" : " · ", used);
  stack_sections(block, {});
  return block;
}

Section ProcessorBlocks::cores(const std::vector<std::size_t>& which, double room) const {
  Section section;
  section.gap = core_gap;
  section.columns = 1;
  if (which.empty()) return section;
  if (!squares_) {
    section.blocks.push_back(counted_cores(which, ""));
    return section;
  }
  for (const std::size_t index : which) section.blocks.push_back(core(index));
  // As wide as there is room, in rows of one length.
  const std::size_t count = which.size();
  const auto fitting = static_cast<std::size_t>((room + core_gap) / (core_size + core_gap));
  section.columns = columns_for(count, ideal_columns(count, 1.8));
  if (fitting > section.columns)
    section.columns = columns_for(
        count, std::min(static_cast<double>(fitting) / 2 + 0.5, static_cast<double>(count)));
  if (fitting >= count) section.columns = count;
  return section;
}

// Takes the cores that share the last cache out of `loose`.
std::vector<ProcessorBlocks::CacheCores> ProcessorBlocks::split_by_cache(
    std::vector<std::size_t>& loose) const {
  std::vector<CacheCores> groups;
  for (const int level : {3, 2}) {
    for (const CacheGroup& cache : machine_.caches) {
      if (cache.level != level) continue;
      CacheCores group{fmt::format("L{}", level), {}};
      if (cache.size_bytes > 0) group.label += " " + human_bytes(cache.size_bytes);
      std::vector<std::size_t> others;
      for (const std::size_t core : loose)
        (cache.cpus.includes(machine_.cores[core].cpus) ? group.cores : others).push_back(core);
      // A cache of level 2 that one core has for itself is nothing to draw.
      if (group.cores.empty() || (level == 2 && group.cores.size() < 2)) continue;
      loose = std::move(others);
      groups.push_back(std::move(group));
    }
    if (!groups.empty()) break;
  }
  return groups;
}

// Cores in boxes by the last cache that they share. One cache for all is told by the parent's text.
std::vector<Section> ProcessorBlocks::cores_by_cache(const std::vector<std::size_t>& which,
                                                     Block& parent, double width) const {
  constexpr double gap = 5;
  std::vector<std::size_t> loose = which;
  const std::vector<CacheCores> groups = split_by_cache(loose);
  const bool one_for_all = groups.size() == 1 && loose.empty();
  if (one_for_all || groups.size() > most_caches) {
    if (!parent.detail.empty()) parent.detail += " · ";
    parent.detail += one_for_all ? groups.front().label
                                 : fmt::format("{} × {}", groups.size(), groups.front().label);
    return {cores(which, room_in(parent.kind, width, 1, 0))};
  }
  Section boxes;
  boxes.gap = gap;
  boxes.columns = columns_for(groups.size(), ideal_columns(groups.size(), 1.0));
  for (const CacheCores& group : groups) {
    if (!squares_) {
      boxes.blocks.push_back(counted_cores(group.cores, group.label));
      continue;
    }
    Block box;
    box.kind = BlockKind::cache;
    box.label = group.label;
    const double room = room_in(parent.kind, width, boxes.columns, gap);
    stack_sections(box, {cores(group.cores, room_in(BlockKind::cache, room, 1, 0))}, room);
    boxes.blocks.push_back(std::move(box));
  }
  return {std::move(boxes), cores(loose, room_in(parent.kind, width, 1, 0))};
}

Block ProcessorBlocks::numa(std::size_t index, double room) const {
  const NumaNode& node = machine_.numa_nodes[index];
  Block block;
  block.kind = BlockKind::numa;
  block.label = fmt::format("NUMA{}", index_text(node.os_index));
  if (node.memory_bytes > 0) block.detail = human_bytes(node.memory_bytes);
  const int number = static_cast<int>(index);
  const auto which = cores_of(node.package, number);
  if (which.empty() && node.cpus.empty()) block.detail += ", memory only";
  std::vector<Section> sections{rank_badges(places_, ranks_of(node.package, number), most_badges_)};
  for (Section& section : cores_by_cache(which, block, room))
    sections.push_back(std::move(section));
  stack_sections(block, std::move(sections), room);
  return block;
}

Section ProcessorBlocks::numa_nodes(int package, BlockKind parent, double width) const {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < machine_.numa_nodes.size(); ++i)
    if (machine_.numa_nodes[i].package == package) which.push_back(i);
  Section section;
  section.gap = 7;
  section.columns = columns_for(which.size(), ideal_columns(which.size(), 1.0));
  const double room = room_in(parent, width, section.columns, section.gap);
  for (const std::size_t index : which) section.blocks.push_back(numa(index, room));
  limit_to(section.blocks, most_numa_nodes, "NUMA node");
  return section;
}

Block ProcessorBlocks::package(std::size_t index, double least_width) const {
  const Package& package = machine_.packages[index];
  const int number = static_cast<int>(index);
  Block block;
  block.kind = BlockKind::package;
  block.label = fmt::format("Package{}", index_text(package.os_index));
  // A model that all have is told once, above.
  const bool differs = package.model != machine_.packages.front().model ||
                       package.model != machine_.packages.back().model;
  if (differs) block.detail = printable(package.model, 60);
  std::vector<Section> sections{rank_badges(places_, ranks_of(number, -1), most_badges_),
                                numa_nodes(number, block.kind, least_width)};
  for (Section& section : cores_by_cache(cores_of(number, -1), block, least_width))
    sections.push_back(std::move(section));
  stack_sections(block, std::move(sections), least_width);
  return block;
}

std::vector<Section> ProcessorBlocks::outside() const {
  return {numa_nodes(-1, BlockKind::host, 0), cores(cores_of(-1, -1), 0)};
}

}  // namespace hymn
