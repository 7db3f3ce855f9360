// Who is in a group, and how messages name it.
#pragma once

#include <string>

#include "collectives/algorithm.hpp"
#include "hymn/process_group.hpp"

namespace hymn::detail {

/// Whether a message may go to the rank that sends it: in a batch alone.
enum class ToItself : bool { refused, allowed };

/// Fixed when the group is made.
class GroupMembers {
 public:
  /// As the global rank `me` sees it.
  GroupMembers(Membership membership, std::string description, int me);

  /// Of a group with these members, as `rank` sees it: -1 where it is none of them.
  static GroupShape shape_of(const Membership& membership, int rank);

  const Membership& membership() const { return membership_; }
  const std::vector<int>& ranks() const { return membership_.ranks; }
  std::uint64_t uid() const { return membership_.uid; }
  const std::string& description() const { return description_; }
  GroupShape shape() const { return shape_; }
  bool is_member() const { return shape_.rank >= 0; }
  int global_rank(int group_rank) const;
  int group_rank(int global_rank) const;
  /// -1: it is not a member.
  int find_rank(int global_rank) const;
  /// The group rank of the request's root, or of its peer; any_source; -1: it has neither.
  int peer_of(const Request& request, ToItself to_itself = ToItself::refused) const {
    const bool has_one = !is_collective(request.type) || has_root(request.type);
    return has_one ? find_peer(request, to_itself) : -1;
  }
  RecvStatus to_global(RecvStatus status) const;
  /// The group as messages name it.
  std::string label() const;
  ErrorContext context(std::string operation) const;
  /// Of a call of a rank outside.
  std::string outside_warning(OpType type) const;

 private:
  int find_peer(const Request& request, ToItself to_itself) const;
  int find_unordered(int global_rank) const;
  static std::vector<int> ordered(const std::vector<int>& ranks);

  Membership membership_;
  std::string description_;
  int me_;
  GroupShape shape_;
  std::vector<int> by_rank_;  ///< the members by global rank; empty: they are so already
};

}  // namespace hymn::detail
