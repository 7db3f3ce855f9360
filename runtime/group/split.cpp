// ProcessGroup::split: the members tell each other their colors and keys, and those of a color make
// a group.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn {
namespace {

/// What a member gives.
struct Choice {
  static constexpr std::int64_t right_mark = 0x73706c69746d6521;

  std::int64_t color;
  std::int64_t key;
  std::int64_t mark;  ///< another one: it is not of a split
};
constexpr std::size_t words_of_choice = sizeof(Choice) / sizeof(std::int64_t);

/// Group ranks of the members with that color, by key.
std::vector<int> members_with(int color, std::span<const Choice> choices) {
  const auto choice = [choices](int member) { return choices[static_cast<std::size_t>(member)]; };
  std::vector<int> members;
  for (int member = 0; static_cast<std::size_t>(member) < choices.size(); ++member)
    if (choice(member).color == color) members.push_back(member);
  std::ranges::sort(members, {}, [&](int member) { return std::pair(choice(member).key, member); });
  return members;
}

/// A rank that has run out of the input of a join gives zeros.
void require_marks(std::span<const Choice> choices, const detail::GroupMembers& members) {
  for (int member = 0; static_cast<std::size_t>(member) < choices.size(); ++member) {
    if (choices[static_cast<std::size_t>(member)].mark == Choice::right_mark) continue;
    ErrorContext context = members.context("split");
    context.remedy =
        "call split on all members; one that has run out of the input of a join cannot";
    throw PeerError(fmt::format("rank {} takes no part in it", members.global_rank(member)),
                    std::move(context));
  }
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
  state.world().groups.require_options(options, members.context("split"));
  const Choice mine{color, key, Choice::right_mark};
  std::vector<Choice> choices(static_cast<std::size_t>(size()));
  const ConstBufferView give(&mine, words_of_choice, DataType::int64);
  const BufferView get(choices.data(), words_of_choice * choices.size(), DataType::int64);
  state.run(Request::all_gather(give, OutputBlocks::equal(get)), {}, __builtin_return_address(0));
  if (!members.is_member()) return {};
  require_marks(choices, members);
  if (color == no_color) return {};
  std::vector<int> ranks = members_with(color, choices);
  for (int& rank : ranks) rank = members.global_rank(rank);
  return state.world().groups.new_group_in_order(state, std::move(ranks), options);
}

}  // namespace hymn
