// What a Machine must hold to be of use, whoever wrote it.
#include <fmt/format.h>

#include <cmath>

#include "hymn/error.hpp"
#include "topology/machine.hpp"

namespace hymn {
namespace {

template <typename... Args>
[[noreturn]] void refuse_description(const Machine& machine, fmt::format_string<Args...> problem,
                                     Args&&... args) {
  ErrorContext context;
  context.remedy = "correct the description, or read the machine itself";
  throw UsageError(fmt::format("the description of machine \"{}\" ({}) is wrong: {}", machine.name,
                               machine.source, fmt::format(problem, std::forward<Args>(args)...)),
                   context);
}

template <typename Part>
void check_index(const Machine& machine, int index, const std::vector<Part>& parts,
                 std::string_view who, std::size_t which, std::string_view what) {
  if (index >= -1 && index < static_cast<int>(parts.size())) return;
  refuse_description(machine, "{} {} names {} {}, but there are {}", who, which, what, index,
                     parts.size());
}

/// The part lies within what it names; `inner` may name none.
template <typename Outer, typename Inner>
void check_within(const Machine& machine, const std::vector<Outer>& outers, int outer,
                  const Inner& inner, std::string_view who, std::size_t which,
                  std::string_view what) {
  check_index(machine, outer, outers, who, which, what);
  if (outer < 0 || outers[static_cast<std::size_t>(outer)].cpus.includes(inner.cpus)) return;
  refuse_description(machine, "{} {} has CPUs {}, which {} {} does not have (it has {})", who,
                     which, inner.cpus.to_string(), what, outer,
                     outers[static_cast<std::size_t>(outer)].cpus.to_string());
}

template <typename Part>
void check_cpus(const Machine& machine, const std::vector<Part>& parts, std::string_view who) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (machine.cpus.includes(parts[i].cpus)) continue;
    refuse_description(machine, "{} {} has CPUs {}, but the machine has only {}", who, i,
                       parts[i].cpus.to_string(), machine.cpus.to_string());
  }
}

/// NUMA nodes are not asked: memory of several kinds may belong to the same CPUs.
template <typename Part>
void check_apart(const Machine& machine, const std::vector<Part>& parts, std::string_view who) {
  CpuSet seen;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].cpus.empty()) refuse_description(machine, "{} {} has no CPUs", who, i);
    if (seen.intersects(parts[i].cpus)) {
      refuse_description(machine, "{} {} has CPUs {}, of which an earlier one has {}", who, i,
                         parts[i].cpus.to_string(), (seen & parts[i].cpus).to_string());
    }
    seen |= parts[i].cpus;
  }
}

void check_processors(const Machine& machine) {
  if (machine.cpus.empty()) refuse_description(machine, "it has no CPUs");
  if (machine.allowed_cpus.empty()) refuse_description(machine, "none of its CPUs is allowed");
  if (!machine.cpus.includes(machine.allowed_cpus)) {
    refuse_description(machine, "CPUs {} are allowed, but it has only {}",
                       machine.allowed_cpus.to_string(), machine.cpus.to_string());
  }
  check_cpus(machine, machine.packages, "package");
  check_cpus(machine, machine.numa_nodes, "NUMA node");
  check_cpus(machine, machine.caches, "cache");
  check_cpus(machine, machine.cores, "core");
  check_apart(machine, machine.packages, "package");
  check_apart(machine, machine.cores, "core");
  for (std::size_t i = 0; i < machine.numa_nodes.size(); ++i) {
    const NumaNode& node = machine.numa_nodes[i];
    check_within(machine, machine.packages, node.package, node, "NUMA node", i, "package");
  }
  for (std::size_t i = 0; i < machine.caches.size(); ++i) {
    const CacheGroup& cache = machine.caches[i];
    if (cache.level < 1 || cache.level > 9)
      refuse_description(machine, "cache {} is of level {}", i, cache.level);
    if (cache.cpus.empty()) refuse_description(machine, "cache {} has no CPUs", i);
  }
  for (std::size_t i = 0; i < machine.cores.size(); ++i) {
    const Core& core = machine.cores[i];
    check_within(machine, machine.packages, core.package, core, "core", i, "package");
    check_within(machine, machine.numa_nodes, core.numa, core, "core", i, "NUMA node");
  }
}

bool is_bandwidth(double value) { return std::isfinite(value) && value >= 0; }

/// Slices of one GPU share its address and differ by their UUID.
bool same_gpu(const Gpu& a, const Gpu& b) {
  if (!a.uuid.empty() && !b.uuid.empty()) return a.uuid == b.uuid;
  return a.pci && a.pci == b.pci;
}

std::string identity(const Gpu& gpu) { return gpu.pci ? gpu.pci->to_string() : gpu.uuid; }

void check_gpus(const Machine& machine) {
  const std::vector<Gpu>& gpus = machine.gpus;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    check_index(machine, gpus[i].numa, machine.numa_nodes, "GPU", i, "NUMA node");
    check_index(machine, gpus[i].package, machine.packages, "GPU", i, "package");
    for (std::size_t j = 0; j < i; ++j) {
      if (same_gpu(gpus[i], gpus[j])) {
        refuse_description(machine, "GPUs {} and {} are the same ({})", j, i, identity(gpus[i]));
      }
      if (gpus[i].index >= 0 && gpus[i].index == gpus[j].index) {
        refuse_description(machine, "GPUs {} and {} both have the index {}", j, i, gpus[i].index);
      }
    }
  }
}

void check_links(const Machine& machine) {
  const std::size_t n = machine.gpus.size();
  if (machine.gpu_links.size() != n * n) {
    refuse_description(machine, "{} GPUs need {} links, but there are {}", n, n * n,
                       machine.gpu_links.size());
  }
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const GpuLink& link = machine.link(from, to);
      if ((link.kind == GpuLinkKind::self) != (from == to)) {
        refuse_description(machine, "the link from GPU {} to GPU {} is \"{}\"", from, to,
                           to_string(link.kind));
      }
      if (link.kind != machine.link(to, from).kind) {
        refuse_description(machine,
                           "the link from GPU {} to GPU {} is \"{}\", but \"{}\" the other way",
                           from, to, to_string(link.kind), to_string(machine.link(to, from).kind));
      }
      if (!is_bandwidth(link.bandwidth)) {
        refuse_description(machine, "the link from GPU {} to GPU {} has a bandwidth of {}", from,
                           to, link.bandwidth);
      }
    }
  }
}

void check_nics(const Machine& machine) {
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const Nic& nic = machine.nics[i];
    check_index(machine, nic.numa, machine.numa_nodes, "NIC", i, "NUMA node");
    check_index(machine, nic.package, machine.packages, "NIC", i, "package");
    if (!is_bandwidth(nic.bandwidth)) {
      refuse_description(machine, "NIC {} ({}) has a bandwidth of {}", i, nic.name, nic.bandwidth);
    }
  }
}

}  // namespace

void check_machine(const Machine& machine) {
  check_processors(machine);
  check_gpus(machine);
  check_links(machine);
  check_nics(machine);
}

}  // namespace hymn
