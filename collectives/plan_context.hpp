// What a plan depends on beside what is asked.
#pragma once

#include <memory>
#include <vector>

#include "topology/placement.hpp"

namespace hymn {

class TuningTable;

/// When the peer memory of GPUs may be used.
enum class PeerUse : unsigned char {
  measured,  ///< for what the tuning table has of it
  named,     ///< wherever it can be: the path setting names it
  c10d,      ///< as HYMN_P2P_COMPAT=c10d says: for less, and for that always
};

/// The same on all members of a group.
struct PlanContext {
  GroupLayout layout;
  std::vector<std::shared_ptr<const Machine>> machines{};  ///< by HostSummary::machine
  std::shared_ptr<const TuningTable> tuning{};             ///< null: none fits these machines
  PeerUse peers = PeerUse::measured;
  bool nccl_in_float32 = false;  ///< NCCL is not to round halves at each hop
};

}  // namespace hymn
