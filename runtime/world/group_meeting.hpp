// How the members of a new group meet, and make what carries its calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/exchange_mux.hpp"
#include "collectives/planner/planner.hpp"
#include "runtime/group/group_means.hpp"
#include "runtime/group/world_context.hpp"
#include "runtime/mechanisms/mechanism.hpp"

namespace hymn::detail {

/// Any thread may call anything.
class GroupMeeting {
 public:
  /// Over what groups work. What it is given must stay; where ranks are, and what was measured
  /// there, must be known before the first group is made.
  struct Means {
    ExchangeMux& mux;  ///< over which each group has an exchange of its own
    const std::vector<std::unique_ptr<Mechanism>>& mechanisms;
    const JobMap& job;
    const std::shared_ptr<const TuningTable>& tuning;
  };
  GroupMeeting(WorldContext& world, const Means& means) : world_(world), means_(means) {}

  /// Meets the other members; what fails is to be given up.
  GroupMeans hold(const Membership& membership, const GroupOptions& options, Timeout limit);
  /// On a rank that is no member: others meet, and may need this rank for it.
  void stand_by(const Membership& membership, const GroupOptions& options, Timeout limit);
  /// In a handler: throws what has been caught again, with what is known of it. `what` was made.
  [[noreturn]] void give_up(const Membership& membership, const std::string& what);
  /// The group has ended on this rank: see Mechanism::close().
  void close(const Membership& membership, bool clean);
  /// Whether threads of hymn's own may hold it.
  bool serves_own_threads() const;

 private:
  /// What the members have told each other.
  /// What all members have said, one behind the other for each mechanism; `of` lies in `said`.
  struct Words {
    std::vector<Bytes> said;
    std::vector<std::vector<Word>> of;  ///< by mechanism, then by member
  };
  struct Agreement {
    Words offers;
    Words answers;
    bool blocks = true;  ///< see GroupMeans
    GroupLayout layout;
  };
  Agreement agree(Exchange& exchange, const Membership& membership, const GroupOptions& options,
                  Timeout limit);
  Agreement imagine(const Membership& membership) const;
  Words answer(Exchange& exchange, const Membership& membership, const Words& offers,
               Timeout limit);
  GroupMeans find_means(std::shared_ptr<Exchange> exchange, const Membership& membership,
                        const GroupOptions& options, Agreement agreement, Timeout limit);
  PlanContext plan_context(GroupLayout layout, const PathPolicy& path) const;
  bool shares_memory() const;

  WorldContext& world_;
  Means means_;
};

}  // namespace hymn::detail
