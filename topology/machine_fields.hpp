// What a Machine consists of, for all that reads or writes one as text: for each kind of object the
// function `fields` names its fields, once. A writer and a reader both follow it, so they cannot
// drift apart.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "topology/machine.hpp"

namespace hymn::machine_fields {

constexpr int format_version = 1;
constexpr std::size_t max_gpus = 1024;  // the links are its square

/// T, const or not: a Writer only reads what it is given.
template <typename T, typename U>
concept Some = std::same_as<std::remove_const_t<T>, U>;

/// A link as it is written: by the indices of its ends.
struct NamedLink {
  int from = -1;
  int to = -1;
  GpuLink link;
};

template <typename Io, Some<Package> T>
void fields(Io& io, T& package) {
  io.field("os_index", package.os_index, -1);
  io.field("cpus", package.cpus);
  io.field("model", package.model);
}

template <typename Io, Some<NumaNode> T>
void fields(Io& io, T& node) {
  io.field("os_index", node.os_index, -1);
  io.field("package", node.package, -1);
  io.field("cpus", node.cpus);
  io.field("memory_bytes", node.memory_bytes);
}

template <typename Io, Some<CacheGroup> T>
void fields(Io& io, T& cache) {
  io.field("level", cache.level);
  io.field("size_bytes", cache.size_bytes);
  io.field("cpus", cache.cpus);
}

template <typename Io, Some<Core> T>
void fields(Io& io, T& core) {
  io.field("os_index", core.os_index, -1);
  io.field("package", core.package, -1);
  io.field("numa", core.numa, -1);
  io.field("cpus", core.cpus);
}

template <typename Io, Some<Gpu> T>
void fields(Io& io, T& gpu) {
  io.field("index", gpu.index, -1);
  io.field("name", gpu.name);
  io.field("uuid", gpu.uuid);
  io.field("pci", gpu.pci);
  io.field("numa", gpu.numa, -1);
  io.field("package", gpu.package, -1);
  io.field("memory_bytes", gpu.memory_bytes);
  io.field("compute_major", gpu.compute_major);
  io.field("compute_minor", gpu.compute_minor);
}

template <typename Io, Some<NamedLink> T>
void fields(Io& io, T& named) {
  io.field("from", named.from, -1);
  io.field("to", named.to, -1);
  io.field("kind", named.link.kind, GpuLinkKind::unknown);
  io.field("bytes_per_second", named.link.bandwidth);
  io.field("peer_access", named.link.peer_access);
}

template <typename Io, Some<Nic> T>
void fields(Io& io, T& nic) {
  io.field("name", nic.name);
  io.field("pci", nic.pci);
  io.field("numa", nic.numa, -1);
  io.field("package", nic.package, -1);
  io.field("bytes_per_second", nic.bandwidth);
}

template <typename Io, Some<MemoryLimits> T>
void fields(Io& io, T& memory) {
  io.field("total_bytes", memory.total_bytes);
  io.field("available_bytes", memory.available_bytes);
  io.field("cgroup_max_bytes", memory.cgroup_max_bytes);
  io.field("cgroup_used_bytes", memory.cgroup_used_bytes);
  io.field("shm_total_bytes", memory.shm_total_bytes);
  io.field("shm_free_bytes", memory.shm_free_bytes);
  io.field("huge_page_bytes", memory.huge_page_bytes);
  io.field("huge_pages_free", memory.huge_pages_free);
  io.field("transparent_huge_pages", memory.transparent_huge_pages);
}

/// All but the links, which need the number of GPUs.
template <typename Io, Some<Machine> T>
void fields(Io& io, T& machine) {
  io.field("name", machine.name);
  io.field("source", machine.source);
  io.field("cpus", machine.cpus);
  io.field("allowed_cpus", machine.allowed_cpus);
  io.field("packages", machine.packages);
  io.field("numa_nodes", machine.numa_nodes);
  io.field("caches", machine.caches);
  io.field("cores", machine.cores);
  io.field("gpus", machine.gpus, {}, max_gpus);
  io.field("nics", machine.nics);
  io.field("memory", machine.memory);
  io.field("remarks", machine.remarks);
}

/// What a link is that the text does not name.
inline GpuLink default_link(std::size_t from, std::size_t to) {
  if (from != to) return {};
  return {.kind = GpuLinkKind::self, .bandwidth = 0, .peer_access = true};
}

}  // namespace hymn::machine_fields
