// Follows the collectives of one group on a rank that has run out of input, by what the other
// members record.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "hymn/join.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/join/shadow_call.hpp"
#include "runtime/join/shadow_on_gpu.hpp"
#include "runtime/join/shadow_source.hpp"

namespace hymn::detail {

/// Used by one thread, in the order of the calls.
class GroupShadow {
 public:
  /// Throws UsageError for a group that has been destroyed or is followed already, and
  /// UnsupportedError where this rank could not follow; nothing is sent.
  GroupShadow(ProcessGroup group, const ShadowOptions& options);
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
  Work part();
  std::uint64_t shadowed() const { return shadowed_; }
  WorldContext& world() const { return state_->world(); }

 private:
  struct InFlight {
    std::vector<std::unique_ptr<ShadowCall>> calls;  // several, where they are coalesced
    std::unique_ptr<ShadowOnGpu> on_gpu;             // null: in host memory
    Work work;
  };
  struct EndShadow {
    void operator()(GroupState* state) const { state->record().end_shadow(); }
  };
  void require_free();
  void require_support() const;
  bool retire();
  void look(std::uint64_t next);
  /// Calls `visit` with every other member.
  template <class Visit>
  void for_each_other(Visit&& visit) const;
  /// That collective of this round; nothing: not enough has been seen of it.
  std::optional<MadeCall> find(std::uint64_t next);
  [[noreturn]] void refuse_lost(int rank, std::uint64_t next) const;
  /// How many collectives the group makes in all, once that is known.
  std::optional<std::uint64_t> total() const;
  [[noreturn]] void refuse_silent(int rank) const;
  void start(const MadeCall& made);
  void start_coalesced(const SeenCall& whole);
  std::unique_ptr<ShadowCall> shadow_of(const MadeCall& made);

  ProcessGroup group_;
  GroupState* state_;
  std::unique_ptr<GroupState, EndShadow> begun_;
  ShadowOptions options_;
  std::unique_ptr<ReadableMembers> readable_;
  std::unique_ptr<AskedMembers> asked_;
  std::uint64_t round_ = 0;      // of shadow_all on this group
  Wanted wanted_ = Wanted::any;  // of the next collective
  std::deque<InFlight> in_flight_;
  std::vector<ShadowMemory> spare_;  // of calls that have completed
  std::vector<DeviceMemory> spare_on_gpu_;
  std::uint64_t shadowed_ = 0;
  bool ended_ = false;
};

/// Joins all of these, and returns when all members of all of them have: the number of collectives
/// that this rank has shadowed. There is at least one.
std::uint64_t shadow_until_the_end(std::vector<GroupShadow>& shadows);

}  // namespace hymn::detail
