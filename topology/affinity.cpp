#include "topology/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <memory>

#include "topology/core_use.hpp"

namespace hymn {
namespace {

/// The parts of `cpus` that lie on different units; CPUs of no known unit are left out.
std::vector<CpuSet> split_by_unit(const Machine& machine, const CpuSet& cpus, BindTo unit) {
  std::vector<CpuSet> parts;
  auto add_all = [&](const auto& units) {
    for (const auto& one : units)
      if (CpuSet part = one.cpus & cpus; !part.empty()) parts.push_back(std::move(part));
  };
  if (unit == BindTo::core) add_all(machine.cores);
  if (unit == BindTo::numa) add_all(machine.numa_nodes);
  if (unit == BindTo::package) add_all(machine.packages);
  return parts;
}

}  // namespace

std::vector<CpuSet> share_out(const Machine& machine, std::span<const BindWish> wishes) {
  std::vector<CpuSet> shares;
  for (auto wish = wishes.begin(); wish != wishes.end(); ++wish) {
    shares.push_back(wish->cpus);
    const std::vector<CpuSet> parts = split_by_unit(machine, wish->cpus, wish->to);
    if (parts.size() < 2) continue;
    const auto alike = static_cast<std::size_t>(std::count(wishes.begin(), wishes.end(), *wish));
    const auto before = static_cast<std::size_t>(std::count(wishes.begin(), wish, *wish));
    shares.back() = parts[before * parts.size() / alike];
  }
  return shares;
}

CpuSet cpus_for_helper(const Machine& machine, const CpuSet& granted, const CpuSet& own,
                       std::span<const CpuSet> others) {
  CpuSet free = granted;
  auto keep_off = [&](const CpuSet& bound) {
    // A thread that may run on several cores has none of its own.
    if (cores_of(machine, bound).count() != 1) return;
    free -= bound;
    for (const Core& core : machine.cores)
      if (core.cpus.intersects(bound)) free -= core.cpus;
  };
  keep_off(own);
  for (const CpuSet& other : others) keep_off(other);
  return free.empty() ? own : free;
}

bool bind_this_thread(const CpuSet& cpus) {
  const std::vector<int> wanted = cpus.to_vector();
  if (wanted.empty()) return false;
  const auto count = static_cast<std::size_t>(wanted.back()) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  if (set == nullptr) return false;
  CPU_ZERO_S(CPU_ALLOC_SIZE(count), set.get());
  for (const int cpu : wanted)
    CPU_SET_S(static_cast<std::size_t>(cpu), CPU_ALLOC_SIZE(count), set.get());
  return sched_setaffinity(0, CPU_ALLOC_SIZE(count), set.get()) == 0;
}

}  // namespace hymn
