// Groups hosts that look alike, and puts figures and names into words.
#include "tools/topo/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace hymn {

namespace {

// What a host looks like, without the numbers of its ranks. Sets of hosts are compared by it, so
// that thousands of hosts take no longer than sorting them.
std::string pattern_of(const TopoHost& host) {
  std::string pattern = std::to_string(host.machine);
  for (const RankPlace& place : host.places)
    pattern += fmt::format(";{}/{}/{}/{}", place.cpus.to_string(), place.gpu, place.gpu_sharers,
                           place.core_sharers);
  return pattern;
}

}  // namespace

std::vector<std::vector<std::size_t>> alike_hosts(const TopoView& view) {
  std::map<std::string, std::size_t> group_of;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < view.hosts.size(); ++i) {
    const auto [found, is_new] = group_of.try_emplace(pattern_of(view.hosts[i]), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  return groups;
}

std::string ranks_on(const TopoHost& host) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < host.places.size(); i = end) {
    const int first = host.places[i].rank;
    for (end = i + 1;
         end < host.places.size() && host.places[end].rank == host.places[end - 1].rank + 1;)
      ++end;
    const int last = host.places[end - 1].rank;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::string names_of(const TopoView& view, const std::vector<std::size_t>& hosts,
                     std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i == most) return text + fmt::format(", … {} more", hosts.size() - most);
    if (i > 0) text += ", ";
    text += printable(view.hosts[hosts[i]].name, 60);
  }
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes == 0) return "?";
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  const bool whole = unit == 0 || value >= 99.95 ||
                     value == static_cast<double>(static_cast<std::uint64_t>(value));
  return fmt::format("{:.{}f} {}", value, whole ? 0 : 1, units[unit]);
}

std::string human_gbps(double bytes_per_second) {
  if (!(bytes_per_second > 0)) return "?";
  const double value = bytes_per_second / 1e9;
  if (value < 0.1) return fmt::format("{:.2g}", value);
  return value >= 99.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string gpu_number(const Gpu& gpu) { return gpu.index < 0 ? "?" : std::to_string(gpu.index); }

std::string gpu_summary(const Machine& machine) {
  if (machine.gpus.empty()) return "";
  const std::string& name = machine.gpus.front().name;
  const bool alike = !name.empty() && std::all_of(machine.gpus.begin(), machine.gpus.end(),
                                                  [&](const Gpu& g) { return g.name == name; });
  return alike ? fmt::format("{} × {}", machine.gpus.size(), printable(name, 60))
               : counted(machine.gpus.size(), "GPU");
}

std::string cpu_model(const Machine& machine) {
  return machine.packages.empty() ? "" : printable(machine.packages.front().model, 60);
}

std::uint64_t memory_of(const Machine& machine) {
  std::uint64_t sum = 0;
  for (const NumaNode& node : machine.numa_nodes) sum += node.memory_bytes;
  return sum > 0 ? sum : machine.memory.total_bytes;
}

std::string machine_summary(const Machine& machine) {
  std::string text = cpu_model(machine);
  if (machine.packages.size() > 1 && !text.empty())
    text = fmt::format("{} × {}", machine.packages.size(), text);
  if (!text.empty()) text += " · ";
  text += counted(machine.cores.size(), "core");
  if (const std::uint64_t memory = memory_of(machine); memory > 0)
    text += " · " + human_bytes(memory);
  if (!machine.gpus.empty()) text += " · " + gpu_summary(machine);
  return text;
}

std::string_view link_words(GpuLinkKind kind) {
  switch (kind) {
    case GpuLinkKind::self:
      return "itself";
    case GpuLinkKind::nvswitch:
      return "NVLink through NVSwitch";
    case GpuLinkKind::nvlink:
      return "NVLink";
    case GpuLinkKind::pcie_switch:
      return "one PCIe switch";
    case GpuLinkKind::host_bridge:
      return "the host bridges of one package or NUMA node";
    case GpuLinkKind::system:
      return "the link between packages";
    case GpuLinkKind::unknown:
      break;
  }
  return "not known";
}

}  // namespace hymn
