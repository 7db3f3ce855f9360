// How the members of a new group learn on which hosts they are.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/meeting.hpp"
#include "topology/placement.hpp"

namespace hymn {

void pack(Packer& packer, const HostSummary& summary);
HostSummary unpack_summary(Unpacker& unpacker);

/// What a member of a group that is being made (global ranks, in the order of the group) tells the
/// others of where it is; the first member on each host speaks for all on it.
void pack_spot(Packer& packer, const JobMap& map, std::span<const int> members);

/// Makes the layout of a group from what its members told; it comes out the same on all of them.
class LayoutReader {
 public:
  /// One member's pack_spot; all are read in order of their ranks.
  void read(Unpacker& unpacker);
  GroupLayout layout() const;

 private:
  GroupLayout layout_;
  std::vector<std::uint64_t> hosts_;      // of layout_.hosts: their index in the job
  std::uint64_t last_ = 0;                // of the member read last
  std::map<std::uint64_t, int> members_;  // on each of them
};

}  // namespace hymn
