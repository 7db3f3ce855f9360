// What one host is made of: a plain value, whatever it was read from.
//
// Objects refer to each other by index into the vectors of the Machine; -1 means that it is not
// known. Sizes are bytes, bandwidths bytes per second in one direction. 0 means "not known" for
// sizes and bandwidths.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/private.hpp"
#include "topology/cpu_set.hpp"

namespace hymn {

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;
  std::uint8_t function = 0;

  /// "0000:18:00.0", also without the domain, or with one of eight digits as NVML writes it.
  static std::optional<PciAddress> parse(std::string_view text);
  HYMN_PRIVATE std::string to_string() const;
  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;
};

struct Package {
  int os_index = -1;
  CpuSet cpus;
  std::string model;  ///< of the processor
  friend bool operator==(const Package&, const Package&) = default;
};

struct NumaNode {
  int os_index = -1;
  int package = -1;  ///< -1 also when it spans several
  CpuSet cpus;       ///< empty for memory without processors
  std::uint64_t memory_bytes = 0;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

/// The CPUs that share a cache of level 2 or 3.
struct CacheGroup {
  int level = 0;
  std::uint64_t size_bytes = 0;
  CpuSet cpus;
  friend bool operator==(const CacheGroup&, const CacheGroup&) = default;
};

struct Core {
  int os_index = -1;
  int package = -1;
  int numa = -1;
  CpuSet cpus;  ///< its hardware threads
  friend bool operator==(const Core&, const Core&) = default;
};

struct Gpu {
  int index = -1;    ///< as CUDA numbers it in the process that looked; else in PCI order
  std::string name;  ///< "NVIDIA H200"
  std::string uuid;  ///< "GPU-…"; empty when not known
  std::optional<PciAddress> pci;
  int numa = -1;
  int package = -1;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0;  ///< 0 when not known
  int compute_minor = 0;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// How two GPUs reach each other, from best to worst. NVML's names are given in brackets.
enum class GpuLinkKind : unsigned char {
  self,
  nvswitch,     ///< NVLink through switches: all pairs at full width
  nvlink,       ///< NVLink from one to the other
  pcie_switch,  ///< below one PCIe switch (PIX, PXB)
  host_bridge,  ///< through the host bridges of one package or NUMA node (PHB, NODE)
  system,       ///< through the link between packages (SYS)
  unknown,
};
HYMN_PRIVATE std::string_view to_string(GpuLinkKind kind) noexcept;
std::optional<GpuLinkKind> parse_gpu_link_kind(std::string_view text) noexcept;

struct GpuLink {
  GpuLinkKind kind = GpuLinkKind::unknown;
  double bandwidth = 0;             ///< bytes per second, one direction
  std::optional<bool> peer_access;  ///< whether one may read the other's memory; unset: not known
  friend bool operator==(const GpuLink&, const GpuLink&) = default;
};

struct Nic {
  std::string name;  ///< "eth0", "mlx5_0"
  std::optional<PciAddress> pci;
  int numa = -1;
  int package = -1;
  double bandwidth = 0;  ///< bytes per second
  friend bool operator==(const Nic&, const Nic&) = default;
};

/// What memory this process can really get. Changes while a job runs; not part of the fingerprint.
struct MemoryLimits {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;              ///< the kernel's estimate of what can be had
  std::optional<std::uint64_t> cgroup_max_bytes;  ///< where least is left above us; unset: none
  std::uint64_t cgroup_used_bytes = 0;            ///< of that cgroup, without idle file pages
  std::uint64_t shm_total_bytes = 0;              ///< of /dev/shm; 0 when there is none
  std::uint64_t shm_free_bytes = 0;
  std::uint64_t huge_page_bytes = 0;  ///< default size of huge pages
  std::uint64_t huge_pages_free = 0;
  std::string transparent_huge_pages;  ///< "always", "madvise", "never" or ""
  /// What new segments may take together before the kernel kills somebody.
  HYMN_PRIVATE std::uint64_t usable_bytes() const;
  friend bool operator==(const MemoryLimits&, const MemoryLimits&) = default;
};

/// One host.
struct Machine {
  std::string name;    ///< of the host
  std::string source;  ///< "this host", "xml box.xml", "synthetic pack:2 core:4", …
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<CacheGroup> caches;
  std::vector<Core> cores;
  CpuSet cpus;          ///< all that are online
  CpuSet allowed_cpus;  ///< what the cpuset or cgroup of the process that looked really grants
  std::vector<Gpu> gpus;
  std::vector<GpuLink> gpu_links;  ///< gpus.size() squared, row by row
  std::vector<Nic> nics;
  MemoryLimits memory;
  std::vector<std::string> remarks;  ///< what could not be read, or was put right

  const GpuLink& link(std::size_t from, std::size_t to) const {
    return gpu_links[from * gpus.size() + to];
  }
  GpuLink& link(std::size_t from, std::size_t to) { return gpu_links[from * gpus.size() + to]; }
  HYMN_PRIVATE int core_of(int cpu) const;  ///< -1: unknown
  int numa_of(int cpu) const;               ///< -1: unknown
  int package_of(int cpu) const;            ///< -1: unknown
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Throws UsageError naming what is wrong when indices, sizes or the link matrix contradict each
/// other. Every reader ends with it, so that nobody else need look.
void check_machine(const Machine& machine);

/// The same for machines of the same make: 16 hexadecimal digits over processors, caches, NUMA
/// nodes, GPUs, links and the speed of NICs, without names, UUIDs, sizes of memory and what one
/// process is granted.
HYMN_PRIVATE std::string fingerprint(const Machine& machine);

}  // namespace hymn
