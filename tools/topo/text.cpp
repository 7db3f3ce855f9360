// Machines and the ranks on them as text: one section for each kind of machine.
#include "tools/topo/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hymn {

namespace {

constexpr std::size_t widest_matrix = 32;  // GPUs; more do not fit any window

/// Rows of cells under headings, each column as wide as it must be.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) { add(std::move(headings)); }

  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths_[i] = std::max(widths_[i], width_of(cells[i]));
    rows_.push_back(std::move(cells));
  }

  std::string text(std::string_view indent) const {
    std::string text;
    for (const auto& row : rows_) {
      std::string line(indent);
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size()) line.append(widths_[i] - width_of(row[i]) + 2, ' ');
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  // Characters, not bytes.
  static std::size_t width_of(const std::string& cell) {
    return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
      return (static_cast<unsigned>(c) & 0xc0) != 0x80;
    }));
  }

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

std::string index_or_dash(int index) { return index < 0 ? "-" : std::to_string(index); }

std::string cpus_text(const CpuSet& cpus) { return cpus.empty() ? "-" : cpus.to_string(); }

std::string one_line(const Machine& machine) {
  std::string text = fmt::format(
      "  {}, {}, {}, {}", counted(machine.packages.size(), "package"),
      counted(machine.numa_nodes.size(), "NUMA node"), counted(machine.cores.size(), "core"),
      counted(static_cast<std::size_t>(machine.cpus.count()), "hardware thread"));
  if (const std::uint64_t memory = memory_of(machine); memory > 0)
    text += fmt::format(", {} of memory", human_bytes(memory));
  if (!machine.gpus.empty()) text += ", " + gpu_summary(machine);
  text += "\n";
  if (!machine.allowed_cpus.empty() && machine.allowed_cpus != machine.cpus)
    text += fmt::format("  granted to this process: CPUs {} of {}\n",
                        machine.allowed_cpus.to_string(), machine.cpus.to_string());
  return text;
}

// Caches of one size that lie in `within`, level by level: "4 x L3 32 MiB".
std::string caches_text(const Machine& machine, const CpuSet& within) {
  std::string text;
  for (const int level : {3, 2}) {
    std::size_t count = 0;
    std::set<std::uint64_t> sizes;
    for (const CacheGroup& cache : machine.caches) {
      if (cache.level != level || cache.cpus.empty() || !within.includes(cache.cpus)) continue;
      ++count;
      sizes.insert(cache.size_bytes);
    }
    if (count == 0) continue;
    text += fmt::format("{}{} × L{}", text.empty() ? "" : ", ", count, level);
    if (sizes.size() == 1 && *sizes.begin() > 0) text += " " + human_bytes(*sizes.begin());
  }
  return text.empty() ? "-" : text;
}

std::size_t cores_in(const Machine& machine, const CpuSet& cpus) {
  return static_cast<std::size_t>(
      std::count_if(machine.cores.begin(), machine.cores.end(),
                    [&](const Core& core) { return core.cpus.intersects(cpus); }));
}

std::string processors_text(const Machine& machine) {
  Table table({"", "memory", "cores", "CPUs", ""});
  const auto add_numa = [&](const NumaNode& node, std::string_view indent) {
    table.add({fmt::format("{}NUMA {}", indent, index_or_dash(node.os_index)),
               human_bytes(node.memory_bytes), std::to_string(cores_in(machine, node.cpus)),
               cpus_text(node.cpus), caches_text(machine, node.cpus)});
  };
  for (std::size_t p = 0; p < machine.packages.size(); ++p) {
    const Package& package = machine.packages[p];
    table.add({fmt::format("package {}", index_or_dash(package.os_index)), "",
               std::to_string(cores_in(machine, package.cpus)), cpus_text(package.cpus),
               printable(package.model, 60)});
    for (const NumaNode& node : machine.numa_nodes)
      if (node.package == static_cast<int>(p)) add_numa(node, "  ");
  }
  for (const NumaNode& node : machine.numa_nodes)
    if (node.package < 0) add_numa(node, "");
  return table.text("  ");
}

std::string numa_name(const Machine& machine, int numa) {
  return numa < 0 ? "-"
                  : index_or_dash(machine.numa_nodes[static_cast<std::size_t>(numa)].os_index);
}

std::string package_name(const Machine& machine, int package) {
  return package < 0 ? "-"
                     : index_or_dash(machine.packages[static_cast<std::size_t>(package)].os_index);
}

std::string gpus_text(const Machine& machine) {
  if (machine.gpus.empty()) return "";
  Table table({"GPU", "name", "memory", "compute", "PCI", "NUMA", "package"});
  for (const Gpu& gpu : machine.gpus)
    table.add(
        {gpu_number(gpu), gpu.name.empty() ? "?" : printable(gpu.name, 60),
         human_bytes(gpu.memory_bytes),
         gpu.compute_major > 0 ? fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor) : "?",
         gpu.pci ? gpu.pci->to_string() : "?", numa_name(machine, gpu.numa),
         package_name(machine, gpu.package)});
  return "\n" + table.text("  ");
}

std::string_view link_sign(GpuLinkKind kind) {
  switch (kind) {
    case GpuLinkKind::self:
      return "=";
    case GpuLinkKind::nvswitch:
      return "SW";
    case GpuLinkKind::nvlink:
      return "NV";
    case GpuLinkKind::pcie_switch:
      return "PIX";
    case GpuLinkKind::host_bridge:
      return "PHB";
    case GpuLinkKind::system:
      return "SYS";
    case GpuLinkKind::unknown:
      break;
  }
  return "?";
}

std::string link_cell(const GpuLink& link) {
  std::string cell(link_sign(link.kind));
  if (link.kind == GpuLinkKind::self) return cell;
  if (link.bandwidth > 0) cell += " " + human_gbps(link.bandwidth);
  if (link.peer_access && !*link.peer_access) cell += "!";
  return cell;
}

std::string legend_text(const std::set<GpuLinkKind>& kinds, bool no_peers) {
  std::string legend;
  for (const GpuLinkKind kind : kinds)
    if (kind != GpuLinkKind::self)
      legend += fmt::format("  {:<4} {}\n", link_sign(kind), link_words(kind));
  if (no_peers) legend += "  !    no peer access: one may not read the other's memory\n";
  return legend;
}

std::string links_text(const Machine& machine) {
  const std::size_t count = machine.gpus.size();
  if (count < 2) return "";
  if (count > widest_matrix) return fmt::format("\n  links of {} GPUs: see --json\n", count);
  std::vector<std::string> headings{"GB/s"};
  for (const Gpu& gpu : machine.gpus) headings.push_back("GPU" + gpu_number(gpu));
  Table table(headings);
  std::set<GpuLinkKind> kinds;
  bool no_peers = false;
  for (std::size_t from = 0; from < count; ++from) {
    std::vector<std::string> row{headings[from + 1]};
    for (std::size_t to = 0; to < count; ++to) {
      const GpuLink& link = machine.link(from, to);
      kinds.insert(link.kind);
      no_peers |= link.kind != GpuLinkKind::self && link.peer_access == false;
      row.push_back(link_cell(link));
    }
    table.add(std::move(row));
  }
  return "\n" + table.text("  ") + legend_text(kinds, no_peers);
}

std::string nics_text(const Machine& machine) {
  if (machine.nics.empty()) return "";
  Table table({"NIC", "GB/s", "PCI", "NUMA", "package"});
  for (const Nic& nic : machine.nics)
    table.add({printable(nic.name, 40), human_gbps(nic.bandwidth),
               nic.pci ? nic.pci->to_string() : "?", numa_name(machine, nic.numa),
               package_name(machine, nic.package)});
  return "\n" + table.text("  ");
}

std::string memory_text(const MemoryLimits& memory) {
  // A machine from a file tells no more than its total, which the head has.
  if (memory.available_bytes == 0 && memory.shm_total_bytes == 0) return "";
  const std::string limit =
      memory.cgroup_max_bytes
          ? fmt::format("cgroup limit {}, {} of it used", human_bytes(*memory.cgroup_max_bytes),
                        human_bytes(memory.cgroup_used_bytes))
          : "no cgroup limit";
  const std::string shm = memory.shm_total_bytes > 0
                              ? fmt::format("{}, {} free", human_bytes(memory.shm_total_bytes),
                                            human_bytes(memory.shm_free_bytes))
                              : "none";
  return fmt::format(
      "\n  memory       {}, {} available; {}\n"
      "  /dev/shm     {}\n"
      "  huge pages   of {}, {} free; transparent: {}\n",
      human_bytes(memory.total_bytes), human_bytes(memory.available_bytes), limit, shm,
      human_bytes(memory.huge_page_bytes), memory.huge_pages_free,
      memory.transparent_huge_pages.empty() ? "?" : memory.transparent_huge_pages);
}

std::string remarks_text(const Machine& machine) {
  std::string text;
  for (const std::string& remark : machine.remarks)
    text += fmt::format("{}  note: {}\n", text.empty() ? "\n" : "", printable(remark, 400));
  return text;
}

// "0", "0, with 1 other", "-"
std::string gpu_cell(const Machine& machine, const RankPlace& place) {
  if (place.gpu < 0) return "-";
  std::string cell = gpu_number(machine.gpus[static_cast<std::size_t>(place.gpu)]);
  if (place.gpu_sharers > 1)
    cell += ", with " + counted(static_cast<std::size_t>(place.gpu_sharers - 1), "other");
  return cell;
}

std::string cores_cell(const Machine& machine, const RankPlace& place) {
  std::string cell = std::to_string(cores_in(machine, place.cpus));
  if (place.core_sharers > 1)
    cell += ", with " + counted(static_cast<std::size_t>(place.core_sharers - 1), "other");
  return cell;
}

std::string places_text(const TopoView& view, const std::vector<std::size_t>& alike) {
  const TopoHost& host = view.hosts[alike.front()];
  if (host.places.empty()) return "";
  const Machine& machine = view.machine_of(host);
  Table table({"rank", "local", "package", "NUMA", "CPUs", "cores", "GPU"});
  for (const RankPlace& place : host.places)
    table.add({std::to_string(place.rank), std::to_string(place.local_rank),
               package_name(machine, place.package), numa_name(machine, place.numa),
               cpus_text(place.cpus), cores_cell(machine, place), gpu_cell(machine, place)});
  std::string text = fmt::format("\n  ranks on {}\n{}", printable(host.name, 60), table.text("  "));
  if (alike.size() > 1) text += "  and alike\n";
  for (std::size_t i = 1; i < alike.size(); ++i)
    text += fmt::format("    {}: ranks {}\n", printable(view.hosts[alike[i]].name, 60),
                        ranks_on(view.hosts[alike[i]]));
  return text;
}

std::string machine_text(const TopoView& view, int kind) {
  std::vector<std::size_t> hosts;
  for (std::size_t i = 0; i < view.hosts.size(); ++i)
    if (view.hosts[i].machine == kind) hosts.push_back(i);
  if (hosts.empty()) return "";
  const Machine& machine = *view.machines[static_cast<std::size_t>(kind)];
  std::string text =
      fmt::format("{}: {} ({})\n", hosts.size() == 1 ? "host" : counted(hosts.size(), "host"),
                  names_of(view, hosts, 16), printable(machine.source));
  text += one_line(machine) + "\n" + processors_text(machine) + gpus_text(machine) +
          links_text(machine) + nics_text(machine) + memory_text(machine.memory) +
          remarks_text(machine);
  for (const auto& alike : alike_hosts(view))
    if (view.hosts[alike.front()].machine == kind) text += places_text(view, alike);
  return text;
}

}  // namespace

std::string topo_text(const TopoView& view) {
  std::string text;
  if (view.hosts.size() > 1 || view.ranks > 0)
    text = fmt::format("{}, {}\n\n", counted(view.hosts.size(), "host"),
                       counted(static_cast<std::size_t>(view.ranks), "rank"));
  for (std::size_t kind = 0; kind < view.machines.size(); ++kind) {
    if (kind > 0) text += "\n";
    text += machine_text(view, static_cast<int>(kind));
  }
  return text;
}

}  // namespace hymn
