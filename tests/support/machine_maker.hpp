// Machines of all sorts, made at random, for what must hold for any machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace hymn::test {

/// Makes machines that check_machine accepts, the same ones in each run.
class MachineMaker {
 public:
  explicit MachineMaker(unsigned seed) : random_(seed) {}

  Machine make() {
    Machine machine;
    machine.name = text();
    machine.source = text();
    add_processors(machine);
    add_gpus(machine);
    for (int i = pick(0, 3); i > 0; --i) {
      machine.nics.push_back(
          {text(), pci(), index(machine.numa_nodes), index(machine.packages), bandwidth()});
    }
    machine.memory = {.total_bytes = big(),
                      .available_bytes = big(),
                      .cgroup_max_bytes = maybe() ? std::optional(big()) : std::nullopt,
                      .cgroup_used_bytes = big(),
                      .shm_total_bytes = big(),
                      .shm_free_bytes = big(),
                      .huge_page_bytes = big(),
                      .huge_pages_free = big(),
                      .transparent_huge_pages = text()};
    for (int i = pick(0, 3); i > 0; --i) machine.remarks.push_back(text());
    return machine;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  bool maybe() { return pick(0, 1) == 1; }
  std::uint64_t big() { return maybe() ? random_() : std::numeric_limits<std::uint64_t>::max(); }
  double bandwidth() { return maybe() ? 0 : std::ldexp(static_cast<double>(random_()), -30); }
  std::string text() {
    static const std::vector<std::string> texts = {"",
                                                   "GPU-0",
                                                   "a \"quoted\" name",
                                                   "back\\slash\n\ttab",
                                                   "Zürich/µ/日本",
                                                   std::string("\0x", 2)};
    return texts[static_cast<std::size_t>(pick(0, static_cast<int>(texts.size()) - 1))];
  }
  std::optional<PciAddress> pci() {
    if (maybe()) return std::nullopt;
    return PciAddress{static_cast<std::uint32_t>(random_()), static_cast<std::uint8_t>(random_()),
                      static_cast<std::uint8_t>(pick(0, 31)),
                      static_cast<std::uint8_t>(pick(0, 7))};
  }
  template <typename T>
  int index(const std::vector<T>& list) {
    return pick(-1, static_cast<int>(list.size()) - 1);
  }

  void add_processors(Machine& machine) {
    const int packages = pick(0, 3);
    const int width = pick(1, 70);
    machine.cpus = CpuSet::range(0, std::max(1, packages) * width - 1);
    machine.allowed_cpus = machine.cpus;
    if (width > 1) machine.allowed_cpus.remove(0);
    for (int p = 0; p < packages; ++p) {
      const CpuSet cpus = CpuSet::range(p * width, (p + 1) * width - 1);
      machine.packages.push_back({pick(-1, 9), cpus, text()});
      machine.numa_nodes.push_back({p, maybe() ? p : -1, maybe() ? cpus : CpuSet(), big()});
      machine.caches.push_back({pick(1, 4), big(), cpus});
      for (int c = p * width; c < (p + 1) * width; ++c) {
        machine.cores.push_back({c, maybe() ? p : -1, -1, CpuSet::range(c, c)});
      }
    }
  }
  void add_gpus(Machine& machine) {
    const auto count = static_cast<std::size_t>(pick(0, 9));
    for (std::size_t i = 0; i < count; ++i) {
      machine.gpus.push_back({maybe() ? static_cast<int>(i) : -1, text(),
                              "GPU-" + std::to_string(i), pci(), index(machine.numa_nodes),
                              index(machine.packages), big(), pick(0, 12), pick(0, 9)});
    }
    machine.gpu_links.resize(count * count);
    for (std::size_t i = 0; i < count; ++i) {
      machine.link(i, i) = {.kind = GpuLinkKind::self, .bandwidth = bandwidth(), .peer_access = {}};
      for (std::size_t j = 0; j < i; ++j) {
        machine.link(i, j).kind = static_cast<GpuLinkKind>(pick(1, 6));
        machine.link(j, i).kind = machine.link(i, j).kind;
        machine.link(i, j).bandwidth = bandwidth();
        if (maybe()) machine.link(j, i).peer_access = maybe();
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace hymn::test
