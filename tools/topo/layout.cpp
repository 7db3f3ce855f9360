// Lays out the page: title, hosts, legend, notes.
#include "tools/topo/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/topo/blocks.hpp"
#include "tools/topo/host.hpp"

namespace hymn {

namespace {

constexpr std::size_t most_hosts = 4;
constexpr double margin = 28;
constexpr double title_height = 52;
constexpr double host_gap = 24;
constexpr double widest_row = 1800;  // of hosts beside each other
constexpr double legend_line = 22;
constexpr double note_line = 16;
constexpr double legend_size = 10;

using Sign = LegendEntry::Sign;

std::string title_of(const TopoView& view) {
  std::string title = view.hosts.size() == 1 ? printable(view.hosts.front().name, 60)
                                             : counted(view.hosts.size(), "host");
  if (view.ranks > 0) title += ", " + counted(static_cast<std::size_t>(view.ranks), "rank");
  return title;
}

// Of one host what it is made of; of several what they have together.
std::string subtitle_of(const TopoView& view) {
  if (view.hosts.size() == 1) return machine_summary(view.machine_of(view.hosts.front()));
  std::size_t cores = 0;
  std::size_t gpus = 0;
  for (const TopoHost& host : view.hosts) {
    cores += view.machine_of(host).cores.size();
    gpus += view.machine_of(host).gpus.size();
  }
  return counted(cores, "core") + (gpus > 0 ? ", " + counted(gpus, "GPU") : "");
}

// Each on a line of its own.
void add_memory_notes(std::vector<std::string>& notes, const MemoryLimits& memory) {
  if (memory.available_bytes > 0) {
    notes.push_back(fmt::format("Memory: {} of {} available", human_bytes(memory.available_bytes),
                                human_bytes(memory.total_bytes)));
    if (memory.cgroup_max_bytes)
      notes.back() += fmt::format(", cgroup limit {}", human_bytes(*memory.cgroup_max_bytes));
  }
  if (memory.shm_total_bytes > 0)
    notes.push_back(fmt::format("/dev/shm: {} of {} free", human_bytes(memory.shm_free_bytes),
                                human_bytes(memory.shm_total_bytes)));
}

std::string host_title(const TopoView& view, const std::vector<std::size_t>& hosts) {
  if (view.hosts.size() == 1) return "";  // the page's title says it
  const TopoHost& first = view.hosts[hosts.front()];
  std::string title = printable(first.name, 60);
  if (!first.places.empty()) title += " · ranks " + ranks_on(first);
  if (hosts.size() > 1) title += fmt::format(" · and {} hosts like it", hosts.size() - 1);
  return title;
}

// Each host by itself while there is room; then one of each kind.
std::vector<std::vector<std::size_t>> hosts_to_draw(const TopoView& view) {
  if (view.hosts.size() > most_hosts) return alike_hosts(view);
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < view.hosts.size(); ++i) groups.push_back({i});
  return groups;
}

/// What occurs in the picture, and so must be explained.
struct Seen {
  std::set<Sign> signs;
  std::set<double> nvlinks;  // bandwidths
  std::set<double> pcie;

  void look_at(const Block& block) {
    if (block.kind == BlockKind::core)
      signs.insert(!block.granted       ? Sign::lost_core
                   : block.sharers == 0 ? Sign::free_core
                   : block.sharers == 1 ? Sign::rank_core
                                        : Sign::shared_core);
    if (block.kind == BlockKind::rank) signs.insert(Sign::rank);
    for (const Wire& wire : block.wires)
      (wire.kind == WireKind::nvlink ? nvlinks : pcie).insert(wire.bandwidth);
    for (const Block& child : block.children) look_at(child);
  }
};

// One entry for each bandwidth, or for the least and the greatest of many.
void add_wires(std::vector<LegendEntry>& legend, WireKind kind, std::string_view name,
               const std::set<double>& bandwidths) {
  std::set<double> shown = bandwidths;
  if (shown.size() > 3) shown = {*bandwidths.begin(), *bandwidths.rbegin()};
  if (shown.size() > 1) shown.erase(0);
  for (const double bandwidth : shown) {
    std::string text(name);
    if (bandwidth > 0) text += fmt::format(" {} GB/s", human_gbps(bandwidth));
    legend.push_back({Sign::wire, {kind, {}, bandwidth, "", {}}, std::move(text)});
  }
}

std::vector<LegendEntry> legend_of(const std::vector<Block>& hosts) {
  Seen seen;
  for (const Block& host : hosts) seen.look_at(host);
  std::vector<LegendEntry> legend;
  const auto add = [&](Sign sign, const char* text) {
    if (seen.signs.contains(sign)) legend.push_back({sign, {}, text});
  };
  add(Sign::free_core, "core");
  add(Sign::lost_core, "core not granted");
  add(Sign::rank_core, "core of one rank, with its number");
  add(Sign::shared_core, "core of several ranks");
  add(Sign::rank, "rank");
  add_wires(legend, WireKind::nvlink, "NVLink", seen.nvlinks);
  add_wires(legend, WireKind::pcie, "PCIe", seen.pcie);
  if (!legend.empty() && legend.back().sign == Sign::wire && legend.back().wire.bandwidth > 0)
    legend.back().text += " (in one direction)";
  return legend;
}

// Entries from left to right, in as many lines as it takes; returns the lower edge.
double place_legend(std::vector<LegendEntry>& legend, double y, double right) {
  double x = margin;
  for (LegendEntry& entry : legend) {
    const double width = 28 + text_width(entry.text, legend_size) + 18;
    if (x > margin && x + width > right) {
      x = margin;
      y += legend_line;
    }
    entry.at = {x, y + legend_line / 2};
    x += width;
  }
  return legend.empty() ? y : y + legend_line;
}

std::vector<Block> draw_hosts(const TopoView& view, double least_width,
                              std::vector<std::string>& notes) {
  std::vector<Block> hosts;
  const auto groups = hosts_to_draw(view);
  for (const auto& group : groups) {
    if (hosts.size() == most_hosts) {
      notes.push_back(
          fmt::format("{} more kinds of hosts are not drawn.", groups.size() - most_hosts));
      break;
    }
    const TopoHost& host = view.hosts[group.front()];
    std::vector<std::string> own_notes;
    hosts.push_back(host_block(view.machine_of(host), host.places, host_title(view, group),
                               least_width, own_notes));
    for (std::string& note : own_notes)
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  return hosts;
}

// As many beside each other as fit; four as a square or a row.
std::size_t host_columns(std::size_t hosts, double width) {
  const auto fitting = static_cast<std::size_t>((widest_row + host_gap) / (width + host_gap));
  const std::size_t columns = std::clamp<std::size_t>(fitting, 1, std::max<std::size_t>(hosts, 1));
  return hosts == 4 && columns == 3 ? 2 : columns;
}

}  // namespace

TopoLayout lay_out(const TopoView& view) {
  TopoLayout page;
  page.title = title_of(view);
  page.subtitle = subtitle_of(view);
  // As wide as its title, and never a strip.
  const double text = std::max(text_width(page.title, 20, true), text_width(page.subtitle, 11));
  const double least_width = view.hosts.size() == 1 ? std::clamp(text, 420.0, 900.0) : 280;
  page.hosts = draw_hosts(view, least_width, page.notes);
  if (view.hosts.size() == 1)
    add_memory_notes(page.notes, view.machine_of(view.hosts.front()).memory);
  double widest = 0;
  for (const Block& host : page.hosts) widest = std::max(widest, host.box.width);
  const std::size_t columns = host_columns(page.hosts.size(), widest);
  const Box grid = put_in_grid(page.hosts, columns, host_gap, {margin, margin + title_height});
  page.width = std::max(grid.right(), margin + 420) + margin;
  page.legend = legend_of(page.hosts);
  double y = place_legend(page.legend, grid.bottom() + 12, page.width - margin);
  page.notes_y = y + 6;
  if (!page.notes.empty()) y = page.notes_y + note_line * static_cast<double>(page.notes.size());
  page.height = y + margin - 8;
  return page;
}

}  // namespace hymn
