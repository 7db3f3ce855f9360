#include "runtime/world/group_spots.hpp"

#include <algorithm>
#include <bit>

#include "hymn/error.hpp"

namespace hymn {
namespace {

int unpack_int(Unpacker& unpacker) {
  return static_cast<int>(static_cast<std::int64_t>(unpacker.number()));
}

}  // namespace

void pack(Packer& packer, const HostSummary& summary) {
  for (const int number :
       {summary.machine, summary.ranks, summary.packages, summary.numa_nodes, summary.cores,
        static_cast<int>(summary.oversubscribed), summary.gpus, summary.ranks_without_gpu,
        summary.most_sharers, static_cast<int>(summary.worst_link),
        static_cast<int>(summary.all_peers)})
    packer.number(static_cast<std::uint64_t>(std::int64_t{number}));
  packer.number(std::bit_cast<std::uint64_t>(summary.least_bandwidth));
}

HostSummary unpack_summary(Unpacker& unpacker) {
  HostSummary summary;
  for (int* number :
       {&summary.machine, &summary.ranks, &summary.packages, &summary.numa_nodes, &summary.cores})
    *number = unpack_int(unpacker);
  summary.oversubscribed = unpack_int(unpacker) != 0;
  for (int* number : {&summary.gpus, &summary.ranks_without_gpu, &summary.most_sharers})
    *number = unpack_int(unpacker);
  summary.worst_link = static_cast<GpuLinkKind>(unpack_int(unpacker));
  summary.all_peers = unpack_int(unpacker) != 0;
  summary.least_bandwidth = std::bit_cast<double>(unpacker.number());
  return summary;
}

void pack_spot(Packer& packer, const JobMap& map, std::span<const int> members) {
  std::vector<RankPlace> here;
  for (const RankPlace& place : map.places)
    if (std::ranges::find(members, place.rank) != members.end()) here.push_back(place);
  // Whom the others read first of those here, whatever the order of the members.
  const auto is_here = [&here](int member) {
    return std::ranges::find(here, member, &RankPlace::rank) != here.end();
  };
  const auto first = std::ranges::find_if(members, is_here);
  const bool speaks = first != members.end() && *first == map.place().rank;
  packer.number(static_cast<std::uint64_t>(map.host)).number(speaks ? 1 : 0);
  if (!speaks) return;
  const HostSummary& host = map.world.hosts[static_cast<std::size_t>(map.host)];
  pack(packer,
       here.size() == map.places.size() ? host : summarise(map.machine(), host.machine, here));
}

void LayoutReader::read(Unpacker& unpacker) {
  const std::uint64_t host = unpacker.number();
  ++layout_.size;
  if (members_[host]++ != 0 && host != last_) layout_.in_rank_order = false;
  last_ = host;
  if (unpacker.number() == 0) return;
  hosts_.push_back(host);
  layout_.hosts.push_back(unpack_summary(unpacker));
}

GroupLayout LayoutReader::layout() const {
  bool agree = hosts_.size() == members_.size();
  for (std::size_t i = 0; agree && i < hosts_.size(); ++i)
    agree = layout_.hosts[i].ranks == members_.at(hosts_[i]);
  if (!agree)
    throw Error(ErrorKind::internal, "the members of a new group disagree on where they are");
  return layout_;
}

}  // namespace hymn
