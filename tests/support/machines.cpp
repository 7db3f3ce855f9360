#include "tests/support/machines.hpp"

#include <string>

namespace hymn::test {
namespace {

void add_numa_node(Machine& machine, const Box& box, int package) {
  NumaNode node;
  node.os_index = static_cast<int>(machine.numa_nodes.size());
  node.package = package;
  node.memory_bytes = std::uint64_t{64} << 30;
  for (int i = 0; i < box.cores; ++i) {
    Core core;
    core.os_index = static_cast<int>(machine.cores.size());
    core.package = package;
    core.numa = node.os_index;
    const int first = machine.cpus.count();
    core.cpus = CpuSet::range(first, first + box.threads - 1);
    machine.cpus |= core.cpus;
    node.cpus |= core.cpus;
    machine.cores.push_back(core);
  }
  for (int i = 0; i < box.gpus; ++i) {
    Gpu gpu;
    gpu.index = static_cast<int>(machine.gpus.size());
    gpu.name = "Test GPU";
    gpu.uuid = "GPU-" + std::to_string(gpu.index);
    gpu.numa = node.os_index;
    gpu.package = package;
    machine.gpus.push_back(gpu);
  }
  machine.packages.back().cpus |= node.cpus;
  machine.numa_nodes.push_back(node);
}

}  // namespace

Machine make_box(const Box& box) {
  Machine machine;
  machine.name = "box";
  machine.source = "a test";
  for (int package = 0; package < box.packages; ++package) {
    machine.packages.emplace_back().os_index = package;
    for (int node = 0; node < box.numa_nodes; ++node) add_numa_node(machine, box, package);
  }
  machine.allowed_cpus = machine.cpus;
  machine.gpu_links.assign(machine.gpus.size() * machine.gpus.size(), box.link);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    machine.link(i, i) = {GpuLinkKind::self, 0, true};
  check_machine(machine);
  return machine;
}

std::shared_ptr<const Machine> share_box(const Box& box) {
  return std::make_shared<const Machine>(make_box(box));
}

}  // namespace hymn::test
