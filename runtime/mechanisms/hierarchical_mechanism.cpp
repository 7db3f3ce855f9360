#include "runtime/mechanisms/hierarchical_mechanism.hpp"

#include <algorithm>

#include "collectives/hierarchical/hierarchical.hpp"
#include "p2p/exchange_port.hpp"
#include "p2p/shm/heap_region.hpp"

namespace hymn {
namespace {

std::string refusal_of(const NewGroup& group) {
  if (group.host_of.empty()) return "the ranks of some host share no memory";
  const HostMap map(group.host_of, group.shape.rank);
  if (map.hosts() == 1) return "all ranks are on one host";
  if (map.largest_host() == 1) return "every rank is alone on its host";
  return {};
}

/// Of one member, who is alone on its host.
std::shared_ptr<ShmChannel> lone_channel(const ShmAreas& areas, int rank) {
  auto region = HeapMemory::view(std::make_shared<HeapMemory>(areas.plan, 1), 0);
  return std::make_shared<ShmChannel>(std::move(region), std::vector<int>{rank}, false, areas.desk,
                                      [](const std::string&) {});
}

}  // namespace

void HierarchicalMechanism::open(NewGroup& group, std::span<const Bytes>, std::span<const Bytes>) {
  std::string refusal = refusal_of(group);
  HierarchyParts parts{.channel = group.channel,
                       .areas = group.areas.hierarchy,
                       .host_of = group.host_of,
                       .port = group.port,
                       .shape = group.shape};
  if (refusal.empty()) {
    if (!parts.channel) {
      const ShmAreas areas = ShmAreas::for_members(1);
      parts.areas = areas.hierarchy;
      parts.channel = lone_channel(areas, group.shape.rank);
    }
    if (!parts.port) parts.port = make_exchange_port(group.exchange, group.membership.ranks);
  }
  group.algorithms.push_back(make_hierarchical(std::move(parts), std::move(refusal)));
}

}  // namespace hymn
