// What a group finds out about its members when it waits for too long: who has not come, and who
// has called something else.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/call_record.hpp"
#include "runtime/group/gone_members.hpp"
#include "runtime/group/group_members.hpp"
#include "runtime/group/world_context.hpp"
#include "runtime/rank/wait_chain.hpp"

namespace hymn::detail {

class GroupInquiry {
 public:
  GroupInquiry(WorldContext& world, const GroupMembers& members)
      : world_(world), members_(members) {}

  /// For a call of this rank that has lasted for long: whom to ask about it, and what; then, with
  /// what they have told, who is missing and where. Does not wait.
  std::pair<Inquiry, std::vector<int>> whom_to_ask(const PendingOp& op) const;
  MissingRanks missing_of(const PendingOp& op, std::vector<ProgressReport> reports) const {
    return find_missing(op, std::move(reports), Duration::zero());
  }
  PendingOp pending_in(const CallRecord& call) const;
  std::string wait_report(const CallRecord& call, std::vector<ProgressReport> reports,
                          Duration waited) const;
  /// Asks the others who is missing. `gives_up`: the operation's own limit has passed; otherwise
  /// only somebody's patience.
  std::exception_ptr timeout_error(const PendingOp& op, Duration waited, Timeout limit,
                                   bool gives_up = true) const;
  /// From what a meeting before the call has found out: who has not come, and what they do instead.
  std::exception_ptr missed_error(const PendingOp& op, const TimeoutError& error) const;

 private:
  /// Who has not come, from what ranks have told, and what a closer look gives within `patience`.
  MissingRanks find_missing(const PendingOp& op, std::vector<ProgressReport> reports,
                            Duration patience) const;
  std::string remedy_for(const MissingRanks& missing) const;
  /// Where the calls of other members differ from this rank's, as the records tell: "rank 1 calls
  /// barrier (at solver.cpp:88)". Empty: nothing is known of that. Asks those of other hosts for up
  /// to `patience`.
  std::string tell_apart(const PendingOp& op, std::vector<ProgressReport> reports,
                         Duration patience) const;
  /// "this rank calls …"; empty where it is not recorded.
  std::string tell_own(const PendingOp& op) const;
  std::optional<CallRecord> own_call(const PendingOp& op) const;
  /// The ranks without whom it does not end.
  std::vector<int> awaited_in(const PendingOp& op) const;
  Inquiry inquiry_about(const PendingOp& op) const;
  /// How long a thread has waited in it without a break.
  Duration time_in_wait(const PendingOp& op, Duration in_flight) const;

  WorldContext& world_;
  const GroupMembers& members_;
};

}  // namespace hymn::detail
