// Puts packages, GPUs, network interfaces and their wires together.
#include "tools/topo/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/topo/links.hpp"
#include "tools/topo/processors.hpp"

namespace hymn {

namespace {

constexpr std::size_t most_packages = 16;
constexpr std::size_t most_packages_in_row = 4;
constexpr std::size_t most_gpus = 16;
constexpr std::size_t most_nics = 4;
constexpr std::size_t most_host_badges = 64;
constexpr std::size_t most_badges_on_gpu = 4;
constexpr double column_gap = 22;
constexpr double device_gap = 12;
constexpr double gpu_width = 68;
constexpr double wire_room = 24;  // for the wires between two rows

/// A package and the devices below it.
struct Column {
  Block package;
  bool has_package = false;
  std::vector<Block> gpus;  // those below one PCIe switch are neighbours
  std::vector<Block> nics;  // one block, or none
  double devices_width = 0;

  double width() const { return std::max(package.box.width, devices_width); }
  bool has_devices() const { return !gpus.empty() || !nics.empty(); }
};

class HostPicture {
 public:
  HostPicture(const Machine& machine, const std::vector<RankPlace>& places, double least_width)
      : machine_(machine),
        places_(places),
        least_width_(least_width),
        processors_(machine, places),
        pcie_sets_(linked_sets(machine, GpuLinkKind::pcie_switch)) {}

  Block make(std::string title, std::vector<std::string>& notes);

 private:
  void make_columns();
  void make_packages();
  std::size_t column_of(int package) const;
  Block gpu(std::size_t index) const;
  Block nic_list(std::vector<Block> nics) const;
  Block nic(const Nic& nic) const;
  double bandwidth_by(std::size_t gpu, bool through_switch) const;
  void place_badges_and_packages(Block& host);
  void place_devices(Block& host);
  void place_gpus(Block& host, Column& column, double x, double y);
  void add_pcie_switch(Block& host, const Column& column, std::span<Block> gpus);
  void add_pcie_wire(Block& host, double x, double top, double bottom, double bandwidth) const;

  const Machine& machine_;
  const std::vector<RankPlace>& places_;
  double least_width_;
  ProcessorBlocks processors_;
  std::vector<int> pcie_sets_;
  std::vector<Column> columns_;
  bool one_row_ = true;  // packages stand beside each other, above their devices
  double y_ = 0;
  double right_ = 0;
};

Block HostPicture::gpu(std::size_t index) const {
  const Gpu& gpu = machine_.gpus[index];
  Block block;
  block.kind = BlockKind::gpu;
  block.number = static_cast<int>(index);
  block.label = "GPU " + gpu_number(gpu);
  if (gpu.memory_bytes > 0) block.detail = human_bytes(gpu.memory_bytes);
  block.tip = fmt::format("GPU {}: {}, PCI {}", gpu_number(gpu), printable(gpu.name, 60),
                          gpu.pci ? gpu.pci->to_string() : "not known");
  std::vector<std::size_t> users;
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (places_[i].gpu == block.number) users.push_back(i);
  Section badges = rank_badges(places_, users, most_badges_on_gpu);
  badges.columns = 2;
  stack_sections(block, {std::move(badges)});
  block.box.width = std::max(block.box.width, gpu_width);
  // A single badge stands in the middle.
  if (users.size() == 1)
    move_by(block.children[0], block.box.middle() - block.children[0].box.middle(), 0);
  return block;
}

Block HostPicture::nic(const Nic& nic) const {
  Block block;
  block.kind = BlockKind::nic;
  block.label = printable(nic.name, 16);
  if (nic.bandwidth > 0) block.label += fmt::format(" · {} GB/s", human_gbps(nic.bandwidth));
  block.tip = fmt::format("{}: PCI {}", printable(nic.name, 60),
                          nic.pci ? nic.pci->to_string() : "not known");
  stack_sections(block, {});
  return block;
}

Block HostPicture::nic_list(std::vector<Block> nics) const {
  limit_to(nics, most_nics, "NIC");
  Block list;
  list.kind = BlockKind::nics;
  list.label = "Network";
  stack_sections(list, {{std::move(nics), 1, 3}});
  return list;
}

// Devices whose package is not known stand below the only package, or beside all packages.
std::size_t HostPicture::column_of(int package) const {
  if (package >= 0 && one_row_) return static_cast<std::size_t>(package);
  return one_row_ && machine_.packages.size() == 1 ? 0 : columns_.size() - 1;
}

void HostPicture::make_columns() {
  one_row_ = machine_.packages.size() <= most_packages_in_row;
  columns_.resize((one_row_ ? machine_.packages.size() : 0) + 1);
  std::vector<std::size_t> order(std::min(machine_.gpus.size(), most_gpus));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // GPUs of a PCIe switch stand where the first of them would.
  const auto place_in_order = [&](std::size_t gpu) {
    const auto same = [&](std::size_t other) {
      return gpu == other || (pcie_sets_[gpu] >= 0 && pcie_sets_[gpu] == pcie_sets_[other]);
    };
    return std::pair(*std::find_if(order.begin(), order.end(), same), gpu);
  };
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const std::size_t gpu : order) places.push_back(place_in_order(gpu));
  std::sort(places.begin(), places.end());
  for (const auto& [first, index] : places)
    columns_[column_of(machine_.gpus[index].package)].gpus.push_back(gpu(index));
  std::map<std::size_t, std::vector<Block>> nics;
  for (const Nic& one : machine_.nics) nics[column_of(one.package)].push_back(nic(one));
  for (auto& [column, list] : nics) columns_[column].nics = {nic_list(std::move(list))};
  for (Column& column : columns_) {
    double width = 0;
    for (const Block& block : column.gpus) width += block.box.width + device_gap;
    for (const Block& block : column.nics) width += block.box.width + device_gap;
    column.devices_width = std::max(0.0, width - device_gap);
  }
}

// As wide as the devices below them.
void HostPicture::make_packages() {
  if (!one_row_) return;
  const double least = room_in(BlockKind::host, least_width_, machine_.packages.size(), column_gap);
  for (std::size_t p = 0; p < machine_.packages.size(); ++p) {
    columns_[p].package = processors_.package(p, std::max(columns_[p].devices_width, least));
    columns_[p].has_package = true;
  }
}

void HostPicture::place_badges_and_packages(Block& host) {
  const BlockStyle style = style_of(BlockKind::host);
  double height = 0;
  double x = style.padding;
  for (Column& column : columns_) {
    if (!column.has_package) continue;
    height = std::max(height, column.package.box.height);
  }
  Section badges = rank_badges(places_, processors_.spanning(), most_host_badges);
  if (!badges.blocks.empty()) {
    const Box grid = put_in_grid(badges.blocks, 24, badges.gap, {x, y_});
    y_ = grid.bottom() + 10;
    right_ = std::max(right_, grid.right());
    for (Block& badge : badges.blocks) host.children.push_back(std::move(badge));
  }
  for (Column& column : columns_) {
    if (!column.has_package) continue;
    move_by(column.package, x - column.package.box.x, y_ - column.package.box.y);
    column.package.box.height = height;
    x = column.package.box.right() + column_gap;
    right_ = std::max(right_, column.package.box.right());
  }
  std::vector<Section> rest = processors_.outside();
  if (!one_row_) {
    y_ -= 12;
    std::vector<Block> packages;
    for (std::size_t p = 0; p < std::min(machine_.packages.size(), most_packages); ++p)
      packages.push_back(processors_.package(p, 0));
    const std::size_t columns = std::min(columns_for(packages.size(), 4), most_packages_in_row);
    rest.insert(rest.begin(), {std::move(packages), columns, 12});
  }
  y_ += height;
  for (Section& section : rest) {
    if (section.blocks.empty()) continue;
    const Box grid =
        put_in_grid(section.blocks, section.columns, section.gap, {style.padding, y_ + 12});
    y_ = grid.bottom();
    right_ = std::max(right_, grid.right());
    for (Block& block : section.blocks) host.children.push_back(std::move(block));
  }
}

double HostPicture::bandwidth_by(std::size_t gpu, bool through_switch) const {
  double bandwidth = 0;
  for (std::size_t other = 0; other < machine_.gpus.size(); ++other) {
    const GpuLink& link = machine_.link(gpu, other);
    if (link.kind == GpuLinkKind::host_bridge || link.kind == GpuLinkKind::system ||
        (through_switch && link.kind == GpuLinkKind::pcie_switch))
      bandwidth = std::max(bandwidth, link.bandwidth);
  }
  return bandwidth;
}

void HostPicture::add_pcie_wire(Block& host, double x, double top, double bottom,
                                double bandwidth) const {
  host.wires.push_back({WireKind::pcie, {{x, top}, {x, bottom}}, bandwidth, "", {}});
}

// A bar above the GPUs of one PCIe switch, between them and their package.
void HostPicture::add_pcie_switch(Block& host, const Column& column, std::span<Block> gpus) {
  const double height = style_of(BlockKind::pcie_switch).head;
  Block bar;
  bar.kind = BlockKind::pcie_switch;
  bar.label = "PCIe switch";
  const Box& first = gpus.front().box;
  bar.box = {first.x, first.y - wire_room - height, gpus.back().box.right() - first.x, height};
  double up = 0;
  for (const Block& gpu : gpus) {
    const auto index = static_cast<std::size_t>(gpu.number);
    up = std::max(up, bandwidth_by(index, false));
    add_pcie_wire(host, gpu.box.middle(), bar.box.bottom(), gpu.box.y, bandwidth_by(index, true));
  }
  if (column.has_package)
    add_pcie_wire(host, bar.box.middle(), column.package.box.bottom(), bar.box.y, up);
  host.children.push_back(std::move(bar));
}

void HostPicture::place_gpus(Block& host, Column& column, double x, double y) {
  for (Block& block : column.gpus) {
    move_by(block, x - block.box.x, y - block.box.y);
    x = block.box.right() + device_gap;
  }
  for (std::size_t begin = 0, end = 0; begin < column.gpus.size(); begin = end) {
    const auto set_of = [&](std::size_t i) {
      return pcie_sets_[static_cast<std::size_t>(column.gpus[i].number)];
    };
    for (end = begin + 1;
         end < column.gpus.size() && set_of(begin) >= 0 && set_of(end) == set_of(begin);)
      ++end;
    if (end - begin > 1) {
      add_pcie_switch(host, column, std::span(column.gpus).subspan(begin, end - begin));
    } else if (column.has_package) {
      const Block& gpu = column.gpus[begin];
      add_pcie_wire(host, gpu.box.middle(), column.package.box.bottom(), y,
                    bandwidth_by(static_cast<std::size_t>(gpu.number), true));
    }
  }
  for (Block& list : column.nics) {
    move_by(list, x - list.box.x, y - list.box.y);
    if (column.has_package)
      add_pcie_wire(host, list.box.middle(), column.package.box.bottom(), y, 0);
  }
}

void HostPicture::place_devices(Block& host) {
  const bool any_switch =
      std::any_of(pcie_sets_.begin(), pcie_sets_.end(), [](int set) { return set >= 0; });
  const double pcie_switch = any_switch ? style_of(BlockKind::pcie_switch).head + wire_room : 0;
  const double y = y_ + wire_room + pcie_switch;
  double gpu_height = 0;
  for (Column& column : columns_)
    for (Block& block : column.gpus) gpu_height = std::max(gpu_height, block.box.height);
  double x = style_of(BlockKind::host).padding;
  for (Column& column : columns_) {
    for (Block& block : column.gpus) block.box.height = gpu_height;
    place_gpus(host, column, x + (column.width() - column.devices_width) / 2, y);
    if (!column.has_package && !column.has_devices()) continue;
    right_ = std::max(right_, x + column.width());
    x += column.width() + column_gap;
    for (std::vector<Block>* devices : {&column.gpus, &column.nics})
      for (Block& block : *devices) {
        y_ = std::max(y_, block.box.bottom());
        host.children.push_back(std::move(block));
      }
  }
}

std::string pairs_without_peer_access(const Machine& machine) {
  std::string pairs;
  std::size_t count = 0;
  for (std::size_t a = 0; a < machine.gpus.size(); ++a)
    for (std::size_t b = a + 1; b < machine.gpus.size(); ++b) {
      if (machine.link(a, b).peer_access != false && machine.link(b, a).peer_access != false)
        continue;
      if (++count <= 8)
        pairs += fmt::format("{}{}–{}", count == 1 ? "" : ", ", gpu_number(machine.gpus[a]),
                             gpu_number(machine.gpus[b]));
    }
  if (count > 8) pairs += fmt::format(" and {} more", count - 8);
  return pairs;
}

Block HostPicture::make(std::string title, std::vector<std::string>& notes) {
  const BlockStyle style = style_of(BlockKind::host);
  Block host;
  host.kind = BlockKind::host;
  host.label = std::move(title);
  if (!host.label.empty()) host.detail = machine_summary(machine_);
  y_ = head_of(host);
  right_ = least_width_ - style.padding;
  make_columns();
  make_packages();
  place_badges_and_packages(host);
  place_devices(host);
  for (Column& column : columns_)
    if (column.has_package) host.children.push_back(std::move(column.package));
  std::string note;
  y_ = std::max(y_, add_gpu_links(host, machine_, note));
  if (!note.empty()) notes.push_back(note);
  if (machine_.gpus.size() > most_gpus)
    notes.push_back(fmt::format("{} more GPUs are not drawn.", machine_.gpus.size() - most_gpus));
  if (machine_.packages.size() > most_packages)
    notes.push_back(
        fmt::format("{} more packages are not drawn.", machine_.packages.size() - most_packages));
  if (const std::string pairs = pairs_without_peer_access(machine_); !pairs.empty())
    notes.push_back("No peer access between GPUs " + pairs + ".");
  host.box = {0, 0, right_ + style.padding, y_ + style.padding};
  return host;
}

}  // namespace

Block host_block(const Machine& machine, const std::vector<RankPlace>& places, std::string title,
                 double least_width, std::vector<std::string>& notes) {
  return HostPicture(machine, places, least_width).make(std::move(title), notes);
}

}  // namespace hymn
