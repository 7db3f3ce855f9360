// What a group finds out, without being asked to check anything, where the calls of its members
// differ: docs/checks.md.
#pragma once

#include <atomic>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "recorder/call_snapshot.hpp"
#include "runtime/group/group_record.hpp"
#include "runtime/group/group_watch.hpp"

namespace hymn::detail {

class GroupAgreement {
 public:
  GroupAgreement(WorldContext& world, const GroupMembers& members, const GroupRecord& record,
                 const GroupWatch& watch)
      : world_(world), members_(members), record_(record), watch_(watch) {}

  /// Of a collective that began at `began` and has not completed: the error where what members have
  /// called is seen to differ; null where not, and mostly without a look.
  std::exception_ptr look_for_other_calls(TimePoint began, TimePoint now);
  /// What an algorithm has met, with the calls of both sides, where these can be read.
  std::exception_ptr named(const std::exception_ptr& other_call) const;

 private:
  struct MembersCalls {
    int rank;
    CallSnapshot snapshot;
  };
  CallSnapshot latest_calls(const CallRing& ring) const;
  /// Of those whose records can be read: this rank, and others of this host.
  std::vector<MembersCalls> calls_of_all() const;
  /// The first of these that members have made otherwise, in words; empty: there is none.
  std::string tell_apart(std::span<const MembersCalls> all) const;
  /// Who calls what, and where.
  std::string tell_calls_of(std::span<const MembersCalls> all, std::uint64_t sequence) const;
  static std::exception_ptr apart_error(const std::string& told);
  void announce_latest();

  WorldContext& world_;
  const GroupMembers& members_;
  const GroupRecord& record_;
  const GroupWatch& watch_;
  std::atomic<std::int64_t> next_look_{0};   // of the world's clock
  std::atomic<std::uint64_t> announced_{0};  // the latest that the coordinator has been told
};

}  // namespace hymn::detail
