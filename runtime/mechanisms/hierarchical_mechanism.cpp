#include "runtime/mechanisms/hierarchical_mechanism.hpp"

#include <algorithm>

#include "collectives/hierarchical/hierarchical.hpp"
#include "p2p/shm/heap_region.hpp"
#include "runtime/mechanisms/shm_mechanism.hpp"

namespace hymn {
namespace {

std::string refusal_of(const HostMemory* memory, int rank) {
  if (memory == nullptr) return "the ranks of some host share no memory";
  const HostMap map(memory->host_of, rank);
  if (map.hosts() == 1) return "all ranks are on one host";
  if (map.largest_host() == 1) return "every rank is alone on its host";
  return {};
}

/// The members on other hosts.
std::vector<int> others(const std::vector<int>& host_of, int rank) {
  std::vector<int> found;
  for (std::size_t member = 0; member < host_of.size(); ++member)
    if (host_of[member] != host_of[static_cast<std::size_t>(rank)])
      found.push_back(static_cast<int>(member));
  return found;
}

/// Of one member, who is alone on its host.
void add_lone_channel(HierarchyParts& parts) {
  RegionPlan plan;
  const int control_block = ShmChannel::add_control_block(plan);
  parts.areas.add_first(plan);
  parts.areas.add_large(plan);
  auto region = HeapMemory::view(std::make_shared<HeapMemory>(plan, 1), 0);
  parts.channel =
      std::make_shared<ShmChannel>(std::move(region), std::vector<int>{parts.shape.rank}, false,
                                   control_block, [](const std::string&) {});
}

}  // namespace

void HierarchicalMechanism::open(NewGroup& group, std::span<const Word>, std::span<const Word>) {
  const auto memory = group.given<HostMemory>();
  std::string refusal = refusal_of(memory.get(), group.shape.rank);
  HierarchyParts parts;
  parts.shape = group.shape;
  if (refusal.empty()) {
    parts.channel = memory->channel;
    parts.areas = memory->areas.hierarchy;
    parts.host_of = memory->host_of;
    parts.port = group.transports.reaching(others(memory->host_of, group.shape.rank));
    if (!parts.channel) add_lone_channel(parts);
  }
  group.algorithms.push_back(make_hierarchical(std::move(parts), std::move(refusal)));
}

}  // namespace hymn
