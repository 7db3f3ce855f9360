#include "runtime/group/group_members.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace hymn::detail {

GroupMembers::GroupMembers(Membership membership, std::string description, int me)
    : membership_(std::move(membership)),
      description_(description.empty() ? "undefined" : std::move(description)),
      me_(me),
      shape_(shape_of(membership_, me)),
      by_rank_(ordered(membership_.ranks)) {}

GroupShape GroupMembers::shape_of(const Membership& membership, int rank) {
  const auto& ranks = membership.ranks;
  const auto found = std::ranges::find(ranks, rank);
  return {found != ranks.end() ? static_cast<int>(found - ranks.begin()) : -1,
          static_cast<int>(ranks.size())};
}

// By global rank, as most groups have them anyway: those have no need of it.
std::vector<int> GroupMembers::ordered(const std::vector<int>& ranks) {
  if (std::ranges::is_sorted(ranks)) return {};
  std::vector<int> members(ranks.size());
  std::iota(members.begin(), members.end(), 0);
  std::ranges::sort(members, {},
                    [&](int member) { return ranks[static_cast<std::size_t>(member)]; });
  return members;
}

int GroupMembers::global_rank(int group_rank) const {
  if (group_rank < 0 || group_rank >= shape_.size)
    throw UsageError(fmt::format("group rank {} is not part of group '{}' of {} ranks", group_rank,
                                 label(), shape_.size),
                     context("global_rank"));
  return membership_.ranks[static_cast<std::size_t>(group_rank)];
}

// Not an optional: GCC returns one through memory, in a way that stalls each call for 10 ns.
int GroupMembers::find_rank(int global_rank) const {
  const auto& ranks = membership_.ranks;
  // Mostly a group has all ranks, or the first so many.
  const auto index = static_cast<std::size_t>(global_rank);
  if (index < ranks.size() && ranks[index] == global_rank) return global_rank;
  if (!by_rank_.empty()) return find_unordered(global_rank);
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), global_rank);
  if (found == ranks.end() || *found != global_rank) return -1;
  return static_cast<int>(found - ranks.begin());
}

int GroupMembers::find_unordered(int global_rank) const {
  const auto rank_of = [this](int member) {
    return membership_.ranks[static_cast<std::size_t>(member)];
  };
  const auto found = std::ranges::lower_bound(by_rank_, global_rank, {}, rank_of);
  return found != by_rank_.end() && rank_of(*found) == global_rank ? *found : -1;
}

int GroupMembers::group_rank(int global_rank) const {
  const int found = find_rank(global_rank);
  if (found < 0)
    throw UsageError(fmt::format("global rank {} is not part of group '{}' of ranks [{}]",
                                 global_rank, label(), fmt::join(membership_.ranks, ", ")),
                     context("group_rank"));
  return found;
}

int GroupMembers::find_peer(const Request& request, ToItself to_itself) const {
  const bool is_p2p = !is_collective(request.type);
  if (awaits_message(request.type) && request.peer == any_source) return any_source;
  const int peer = find_rank(request.peer);
  if (peer < 0)
    throw UsageError(
        fmt::format("{} {} is not part of group '{}' of ranks [{}]", is_p2p ? "peer" : "root",
                    request.peer, label(), fmt::join(membership_.ranks, ", ")),
        {.remedy = "give a global rank that is a member of the group"});
  if (is_p2p && peer == shape_.rank && to_itself == ToItself::refused)
    throw UsageError(
        "a rank cannot send to, or receive from, itself",
        {.remedy = "copy the buffer instead, or give the send and its recv in one batch"});
  return peer;
}

RecvStatus GroupMembers::to_global(RecvStatus status) const {
  if (status.source >= 0) status.source = global_rank(status.source);
  return status;
}

std::string GroupMembers::label() const {
  // Many groups may share a description; the number tells which one.
  return membership_.uid == 0 ? description_ : fmt::format("{}#{}", description_, membership_.uid);
}

ErrorContext GroupMembers::context(std::string operation) const {
  return {.rank = me_, .group = label(), .operation = std::move(operation)};
}

std::string GroupMembers::outside_warning(OpType type) const {
  return fmt::format("{} on group '{}' is ignored: rank {} is not a member of it", to_string(type),
                     label(), me_);
}

}  // namespace hymn::detail
