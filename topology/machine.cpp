#include "topology/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/fnv.hpp"

namespace hymn {
namespace {

constexpr std::array<std::string_view, 7> link_names = {
    "self", "nvswitch", "nvlink", "pcie_switch", "host_bridge", "system", "unknown"};

/// All of `text` as a hexadecimal number of `least` to `most` digits.
std::optional<std::uint32_t> parse_hex(std::string_view text, std::size_t least, std::size_t most) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  if (text.size() < least || text.size() > most) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), end, number, 16);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

template <typename Part>
int index_of(const std::vector<Part>& parts, int cpu) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].cpus.contains(cpu)) return static_cast<int>(i);
  }
  return -1;
}

void describe_gpus(const Machine& machine, fmt::memory_buffer& text) {
  for (const Gpu& gpu : machine.gpus) {
    fmt::format_to(std::back_inserter(text), "gpu {} {}.{} {} {};", gpu.name, gpu.compute_major,
                   gpu.compute_minor, gpu.package, gpu.numa);
  }
  for (const GpuLink& link : machine.gpu_links) {
    // What PCIe reports sinks while a GPU sleeps; what NVLink reports does not.
    const bool steady = link.kind == GpuLinkKind::nvlink || link.kind == GpuLinkKind::nvswitch;
    const int peer = link.peer_access ? static_cast<int>(*link.peer_access) : -1;
    fmt::format_to(std::back_inserter(text), "link {} {:.0f} {};", to_string(link.kind),
                   steady ? link.bandwidth / 1e9 : 0.0, peer);
  }
}

}  // namespace

std::optional<PciAddress> PciAddress::parse(std::string_view text) {
  PciAddress address;
  if (std::count(text.begin(), text.end(), ':') == 2) {
    const std::size_t colon = text.find(':');
    const auto domain = parse_hex(text.substr(0, colon), 4, 8);
    if (!domain) return std::nullopt;
    address.domain = *domain;
    text.remove_prefix(colon + 1);
  }
  if (text.size() != 7 || text[2] != ':' || text[5] != '.') return std::nullopt;
  const auto bus = parse_hex(text.substr(0, 2), 2, 2);
  const auto device = parse_hex(text.substr(3, 2), 2, 2);
  const auto function = parse_hex(text.substr(6), 1, 1);
  if (!bus || !device || !function || *device > 31 || *function > 7) return std::nullopt;
  address.bus = static_cast<std::uint8_t>(*bus);
  address.device = static_cast<std::uint8_t>(*device);
  address.function = static_cast<std::uint8_t>(*function);
  return address;
}

std::string PciAddress::to_string() const {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::string_view to_string(GpuLinkKind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < link_names.size() ? link_names[index] : link_names.back();
}

std::optional<GpuLinkKind> parse_gpu_link_kind(std::string_view text) noexcept {
  for (std::size_t i = 0; i < link_names.size(); ++i) {
    if (link_names[i] == text) return static_cast<GpuLinkKind>(i);
  }
  return std::nullopt;
}

std::uint64_t MemoryLimits::usable_bytes() const {
  const std::uint64_t free = available_bytes != 0 ? available_bytes : total_bytes;
  if (!cgroup_max_bytes) return free;
  const std::uint64_t granted =
      *cgroup_max_bytes > cgroup_used_bytes ? *cgroup_max_bytes - cgroup_used_bytes : 0;
  return free != 0 ? std::min(free, granted) : granted;
}

int Machine::core_of(int cpu) const { return index_of(cores, cpu); }
int Machine::numa_of(int cpu) const { return index_of(numa_nodes, cpu); }
int Machine::package_of(int cpu) const { return index_of(packages, cpu); }

std::string fingerprint(const Machine& machine) {
  // Counts in place of sets: firmware numbers the CPUs of equal machines differently.
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  for (const Package& package : machine.packages) {
    fmt::format_to(out, "package {} {};", package.model, package.cpus.count());
  }
  for (const NumaNode& node : machine.numa_nodes) {
    fmt::format_to(out, "numa {} {};", node.package, node.cpus.count());
  }
  for (const CacheGroup& cache : machine.caches) {
    fmt::format_to(out, "cache {} {} {};", cache.level, cache.size_bytes, cache.cpus.count());
  }
  for (const Core& core : machine.cores) {
    fmt::format_to(out, "core {} {} {};", core.package, core.numa, core.cpus.count());
  }
  describe_gpus(machine, text);
  std::vector<double> nics;
  for (const Nic& nic : machine.nics) nics.push_back(nic.bandwidth);
  std::sort(nics.begin(), nics.end());
  for (const double bandwidth : nics) fmt::format_to(out, "nic {:.0f};", bandwidth);
  return fmt::format("{:016x}", fnv_1a({text.data(), text.size()}));
}

}  // namespace hymn
