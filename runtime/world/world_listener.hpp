// What a world does about what its agent hears, and answers to what others ask of this rank.
#pragma once

#include <vector>

#include "control/agent.hpp"
#include "runtime/world/known_groups.hpp"
#include "runtime/world/long_waits.hpp"

namespace hymn::detail {

class WorldListener final : public control::Listener {
 public:
  /// `job`: where ranks are, once that is known.
  WorldListener(WorldContext& world, const JobMap& job, KnownGroups& groups, const LongWaits& waits)
      : world_(world), job_(job), groups_(groups), waits_(waits) {}

  void peer_changed(const PeerNews& news) override;
  void group_aborted(const control::AbortGroup& message) override;
  void dump_asked(const control::DumpNow& message) override;
  ProgressReport tell(const Inquiry& about) override;
  CallProgress tell_calls(std::uint64_t uid, std::uint64_t sequence) override;
  std::vector<GroupMark> marks() override;

 private:
  OwnWait own_wait() const;

  WorldContext& world_;
  const JobMap& job_;
  KnownGroups& groups_;
  const LongWaits& waits_;
};

}  // namespace hymn::detail
