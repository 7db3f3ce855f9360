// Lays out NVSwitches as bars and NVLinks as tracks below the GPUs.
#include "tools/topo/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace hymn {

namespace {

constexpr double bar_distance = 26;    // from the GPUs to a switch
constexpr double track_distance = 15;  // from one track to the next
constexpr double port_distance = 9;    // from one link of a GPU to the next
constexpr double label_size = 8;
constexpr std::size_t most_links = 48;

/// A link on its way from the lower edge of one GPU to that of another.
struct Track {
  std::size_t left = 0;  // GPUs, by index in the machine
  std::size_t right = 0;
  double bandwidth = 0;
  double left_x = 0;
  double right_x = 0;
  int level = 0;  // 0 is next to the GPUs
};

/// What is taken of each level, from where to where.
using Levels = std::vector<std::vector<std::pair<double, double>>>;
using GpuBoxes = std::map<std::size_t, Box>;

GpuBoxes boxes_of_gpus(const Block& host) {
  GpuBoxes boxes;
  for (const Block& block : host.children)
    if (block.kind == BlockKind::gpu) boxes[static_cast<std::size_t>(block.number)] = block.box;
  return boxes;
}

double lower_edge(const GpuBoxes& boxes) {
  double bottom = 0;
  for (const auto& [gpu, box] : boxes) bottom = std::max(bottom, box.bottom());
  return bottom;
}

// The lowest level on which [begin, end] is free; takes it.
int take_level(Levels& levels, double begin, double end) {
  std::size_t level = 0;
  for (; level < levels.size(); ++level)
    if (std::none_of(levels[level].begin(), levels[level].end(),
                     [&](const auto& taken) { return begin < taken.second && taken.first < end; }))
      break;
  if (level == levels.size()) levels.emplace_back();
  levels[level].emplace_back(begin, end);
  return static_cast<int>(level);
}

std::vector<Track> tracks_of(const Machine& machine, const GpuBoxes& boxes) {
  std::vector<Track> tracks;
  for (const auto& [a, box_a] : boxes)
    for (const auto& [b, box_b] : boxes) {
      if (box_a.x >= box_b.x) continue;
      const GpuLink& link = machine.link(a, b);
      if (link.kind != GpuLinkKind::nvlink) continue;
      tracks.push_back({a, b, std::min(link.bandwidth, machine.link(b, a).bandwidth),
                        box_a.middle(), box_b.middle(), 0});
    }
  return tracks;
}

// Ports along a GPU's lower edge: links to the left first, the nearest first; then those to the
// right, the farthest first. So no link crosses another where both leave the same GPU.
void give_ports(std::vector<Track>& tracks, const GpuBoxes& boxes) {
  for (const auto& [gpu, box] : boxes) {
    const double here = box.middle();
    std::vector<std::pair<double, double*>> ports;  // place in the order, and what to set
    for (Track& track : tracks) {
      if (track.right == gpu)
        ports.emplace_back(-1 / (here - boxes.at(track.left).middle()), &track.right_x);
      if (track.left == gpu)
        ports.emplace_back(1 / (boxes.at(track.right).middle() - here), &track.left_x);
    }
    std::sort(ports.begin(), ports.end());
    const auto count = static_cast<double>(ports.size());
    const double step = std::min(port_distance, box.width / (count + 1));
    double x = here - step * (count - 1) / 2;
    for (auto& [order, port] : ports) {
      *port = x;
      x += step;
    }
  }
}

// As near to the track's middle as no link that goes further down passes.
double place_for_label(const Track& track, const std::vector<Track>& all, double width) {
  const double middle = (track.left_x + track.right_x) / 2;
  const auto is_free = [&](double x) {
    const auto passes = [&](double port) { return std::abs(port - x) < width / 2 + 5; };
    return std::none_of(all.begin(), all.end(), [&](const Track& other) {
      return other.level > track.level && (passes(other.left_x) || passes(other.right_x));
    });
  };
  for (double away = 0; middle + away < track.right_x - width; away += 2)
    for (const double x : {middle - away, middle + away})
      if (is_free(x)) return x;
  return middle;
}

double add_tracks(Block& host, std::vector<Track> tracks, const GpuBoxes& boxes, double top) {
  give_ports(tracks, boxes);
  std::sort(tracks.begin(), tracks.end(), [](const Track& a, const Track& b) {
    return std::pair(a.right_x - a.left_x, a.left_x) < std::pair(b.right_x - b.left_x, b.left_x);
  });
  Levels levels;
  for (Track& track : tracks) track.level = take_level(levels, track.left_x - 4, track.right_x + 4);
  double bottom = top;
  for (const Track& track : tracks) {
    const double y = top + track_distance * (track.level + 1);
    Wire wire;
    wire.kind = WireKind::nvlink;
    wire.points = {{track.left_x, boxes.at(track.left).bottom()},
                   {track.left_x, y},
                   {track.right_x, y},
                   {track.right_x, boxes.at(track.right).bottom()}};
    wire.bandwidth = track.bandwidth;
    if (track.bandwidth > 0) wire.label = human_gbps(track.bandwidth);
    wire.label_at = {place_for_label(track, tracks, text_width(wire.label, label_size)), y};
    host.wires.push_back(std::move(wire));
    bottom = std::max(bottom, y);
  }
  return bottom + 8;
}

std::string switch_label(double least, double most) {
  std::string label = "NVSwitch";
  if (most > 0)
    label += least == most ? fmt::format(" · {} GB/s", human_gbps(most))
                           : fmt::format(" · {} to {} GB/s", human_gbps(least), human_gbps(most));
  return most > 0 ? label + " per GPU" : label;
}

// One bar for each set of GPUs that switches connect.
double add_switches(Block& host, const Machine& machine, const GpuBoxes& boxes, double top) {
  const std::vector<int> sets = linked_sets(machine, GpuLinkKind::nvswitch);
  const double height = style_of(BlockKind::nv_switch).head;
  Levels levels;
  double bottom = top;
  for (int set = 0; set <= *std::max_element(sets.begin(), sets.end()); ++set) {
    Block bar;
    bar.kind = BlockKind::nv_switch;
    double left = 1e9;
    double right = 0;
    double least = 0;
    double most = 0;
    std::vector<Wire> wires;
    for (const auto& [gpu, box] : boxes) {
      if (sets[gpu] != set) continue;
      double bandwidth = 0;
      for (std::size_t other = 0; other < machine.gpus.size(); ++other)
        if (machine.link(gpu, other).kind == GpuLinkKind::nvswitch)
          bandwidth = std::max(bandwidth, machine.link(gpu, other).bandwidth);
      least = wires.empty() ? bandwidth : std::min(least, bandwidth);
      most = std::max(most, bandwidth);
      left = std::min(left, box.x);
      right = std::max(right, box.right());
      wires.push_back(
          {WireKind::nvlink, {{box.middle(), box.bottom()}, {box.middle(), 0}}, bandwidth, "", {}});
    }
    if (wires.empty()) continue;
    const int level = take_level(levels, left - 4, right + 4);
    bar.box = {left, top + bar_distance + level * (height + 10), right - left, height};
    bar.label = switch_label(least, most);
    for (Wire& wire : wires) {
      wire.points.back().y = bar.box.y;
      host.wires.push_back(std::move(wire));
    }
    bottom = std::max(bottom, bar.box.bottom());
    host.children.push_back(std::move(bar));
  }
  return bottom;
}

}  // namespace

std::vector<int> linked_sets(const Machine& machine, GpuLinkKind kind) {
  const std::size_t count = machine.gpus.size();
  std::vector<int> sets(count, -1);
  int next = 0;
  for (std::size_t first = 0; first < count; ++first) {
    if (sets[first] >= 0) continue;
    std::vector<std::size_t> to_visit{first};
    while (!to_visit.empty()) {
      const std::size_t gpu = to_visit.back();
      to_visit.pop_back();
      for (std::size_t other = 0; other < count; ++other)
        if (other != gpu && sets[other] < 0 && machine.link(gpu, other).kind == kind) {
          sets[gpu] = sets[other] = next;
          to_visit.push_back(other);
        }
    }
    if (sets[first] == next) ++next;
  }
  return sets;
}

double add_gpu_links(Block& host, const Machine& machine, std::string& note) {
  const GpuBoxes boxes = boxes_of_gpus(host);
  if (boxes.empty()) return 0;
  double bottom = add_switches(host, machine, boxes, lower_edge(boxes));
  std::vector<Track> tracks = tracks_of(machine, boxes);
  if (tracks.empty()) return bottom;
  if (tracks.size() <= most_links) return add_tracks(host, std::move(tracks), boxes, bottom);
  note = fmt::format("{} NVLinks between GPUs are not drawn; the text of hymn topo has them.",
                     tracks.size());
  return bottom;
}

}  // namespace hymn
