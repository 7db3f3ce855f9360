// Follows the collectives of one group on a rank that has run out of input, by what the other
// members record where this rank can read it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/group_state.hpp"
#include "runtime/shadow_call.hpp"

namespace hymn::detail {

/// Another member, as far as the memory of its recorder shows it.
class ShadowedMember {
 public:
  ShadowedMember(int rank, std::uint64_t uid, RecorderView view)
      : rank_(rank), uid_(uid), view_(view) {}
  int rank() const { return rank_; }
  /// Collectives that it has entered.
  std::uint64_t entered();
  /// How many collectives it had entered when it ran out for the n-th time; nothing: it has not.
  std::optional<std::uint64_t> joined_at(std::uint64_t n);
  /// What it has recorded of that collective, each time of the same or a later one; nothing: not
  /// yet. Throws ResourceError when it has been overwritten.
  std::optional<CallRecord> find(std::uint64_t sequence);

 private:
  const GroupLine* line();

  int rank_;
  std::uint64_t uid_;
  RecorderView view_;
  const GroupLine* line_ = nullptr;  // once it has been there
  std::uint64_t next_record_ = 0;
};

/// Used by one thread, in the order of the calls.
class GroupShadow {
 public:
  /// Throws UnsupportedError where this rank could not follow; nothing is sent.
  explicit GroupShadow(ProcessGroup group);
  GroupShadow(GroupShadow&&) = default;
  GroupShadow& operator=(GroupShadow&&) = delete;
  /// What is still in flight because of a failure keeps its buffers.
  ~GroupShadow();

  /// This rank has run out: the others may see so.
  void join();
  /// Makes the next collective if one of the others has started it. True when anything has
  /// changed. Throws what has become of those in flight.
  bool follow();
  /// All have run out, and what they did is done.
  bool has_ended() const { return ended_; }
  /// Throws where no more can be expected: a member is gone, or nothing has happened for so long.
  void require_hope(Duration idle);
  /// The last collective, which all members make: nobody leaves before the others have seen that
  /// all have run out.
  Work part() { return group_.barrier_async(); }
  std::uint64_t shadowed() const { return shadowed_; }
  WorldState& world() const { return state_->world(); }
  std::uint64_t uid() const { return state_->membership().uid; }

 private:
  struct InFlight {
    std::unique_ptr<ShadowCall> call;
    Work work;
  };
  void require_support() const;
  bool retire();
  /// How many collectives the group makes in all, once that is known.
  std::optional<std::uint64_t> total();
  void start(const CallRecord& record);

  ProcessGroup group_;
  GroupState* state_;
  std::vector<ShadowedMember> others_;
  std::uint64_t round_ = 0;  // of shadow_all on this group
  std::deque<InFlight> in_flight_;
  std::uint64_t shadowed_ = 0;
  bool ended_ = false;
};

/// Joins all of these, and returns when all members of all of them have: the number of collectives
/// that this rank has shadowed. There is at least one.
std::uint64_t shadow_until_the_end(std::vector<GroupShadow>& shadows);

}  // namespace hymn::detail
