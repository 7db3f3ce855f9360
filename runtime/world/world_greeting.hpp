// What a world tells of itself at the log level info, when it has been made.
#pragma once

#include <memory>
#include <vector>

#include "runtime/group/world_context.hpp"
#include "runtime/world/world_meeting.hpp"

namespace hymn::detail {

/// For people who are used to what other libraries tell at this level.
class WorldGreeting {
 public:
  WorldGreeting(const WorldContext& world, const WorldMet& met,
                const std::vector<std::unique_ptr<Mechanism>>& mechanisms,
                const ProcessGroup& everybody)
      : world_(world), met_(met), mechanisms_(mechanisms), everybody_(everybody) {}

  /// Rank 0 tells what all have in common, the first rank of each host what is there.
  void tell() const;

 private:
  void tell_of_host() const;
  void tell_of_paths() const;

  const WorldContext& world_;
  const WorldMet& met_;
  const std::vector<std::unique_ptr<Mechanism>>& mechanisms_;
  const ProcessGroup& everybody_;
};

}  // namespace hymn::detail
