// ProcessGroup::split: the members tell each other their colors and keys, and those of a color make
// a group.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn {
namespace {

/// What a member gives, and what all have given.
constexpr std::size_t words_of_member = 2;

/// Group ranks of the members with that color, by key.
std::vector<int> members_with(int color, std::span<const std::int64_t> given) {
  const auto word = [given](int member, std::size_t which) {
    return given[static_cast<std::size_t>(member) * words_of_member + which];
  };
  std::vector<int> members;
  for (int member = 0; static_cast<std::size_t>(member) * words_of_member < given.size(); ++member)
    if (word(member, 0) == color) members.push_back(member);
  std::ranges::sort(members, {}, [&](int member) { return std::pair(word(member, 1), member); });
  return members;
}

}  // namespace

ProcessGroup ProcessGroup::split(int color, int key, const GroupOptions& options) {
  detail::GroupState& state = detail::need(state_);
  const detail::GroupMembers& members = state.members();
  if (color < no_color) {
    ErrorContext context = members.context("split");
    context.remedy = "give 0 or more, or no_color";
    throw UsageError(fmt::format("{} is no color", color), std::move(context));
  }
  // What the others give is needed at once.
  state.works().scopes().require_none("split", members);
  const std::array<std::int64_t, words_of_member> mine{color, key};
  std::vector<std::int64_t> given(words_of_member * static_cast<std::size_t>(size()));
  state.run(Request::all_gather(mine, OutputBlocks::equal(given)), {}, __builtin_return_address(0));
  if (color == no_color || !members.is_member()) return {};
  std::vector<int> ranks = members_with(color, given);
  for (int& rank : ranks) rank = members.global_rank(rank);
  return state.world().groups.new_group_in_order(state, std::move(ranks), options);
}

}  // namespace hymn
