#include "runtime/rank/gpu_views.hpp"

#include <algorithm>
#include <cstdlib>

namespace hymn {
namespace {

// Slices of one GPU share its address, so that the UUID comes first.
bool are_same(const Gpu& a, const Gpu& b) {
  if (!a.uuid.empty() && !b.uuid.empty()) return a.uuid == b.uuid;
  return a.pci && a.pci == b.pci;
}

std::size_t find_or_add(Machine& machine, const Gpu& gpu) {
  const auto found = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                  [&](const Gpu& known) { return are_same(known, gpu); });
  if (found != machine.gpus.end()) return static_cast<std::size_t>(found - machine.gpus.begin());
  int highest = -1;
  for (const Gpu& known : machine.gpus) highest = std::max(highest, known.index);
  Gpu& added = machine.gpus.emplace_back(gpu);
  added.index = highest + 1;
  return machine.gpus.size() - 1;
}

}  // namespace

std::string visible_gpus() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? "" : std::string("=") + value;
}

std::vector<int> merge_gpus(Machine& machine, const Machine& other) {
  const std::size_t before = machine.gpus.size();
  const std::vector<GpuLink> links = std::move(machine.gpu_links);
  std::vector<int> where;
  for (const Gpu& gpu : other.gpus) where.push_back(static_cast<int>(find_or_add(machine, gpu)));
  machine.gpu_links.assign(machine.gpus.size() * machine.gpus.size(), GpuLink());
  for (std::size_t i = 0; i < where.size(); ++i)
    for (std::size_t j = 0; j < where.size(); ++j)
      machine.link(static_cast<std::size_t>(where[i]), static_cast<std::size_t>(where[j])) =
          other.link(i, j);
  for (std::size_t i = 0; i < before; ++i)
    for (std::size_t j = 0; j < before; ++j) machine.link(i, j) = links[i * before + j];
  return where;
}

}  // namespace hymn
