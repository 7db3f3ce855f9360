// Plays the programs of all ranks together, without running anything.
//
// A call is started, and waited for when something is done with its result. It ends when all ranks
// of its group have started theirs: the n-th call of each on the group. Where nobody gets on any
// more, what they wait for says why.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "functional/fail.hpp"
#include "functional/program.hpp"

namespace hymn {
namespace {

using functional::Collective;
using functional::detail::described;
using functional::detail::listed;
using functional::detail::no_node;

/// What names a group on all ranks.
using GroupName = std::pair<std::string, std::vector<int>>;

/// One call, made by all ranks of a group.
struct Meeting {
  GroupName group;
  std::size_t number = 0;                ///< of the calls on the group, from 1
  std::map<int, std::size_t> arrived{};  ///< which node of a rank's program
  bool is_over() const { return arrived.size() == group.second.size(); }
};

class RankPlayer {
 public:
  explicit RankPlayer(const Program& program_)
      : program(program_),
        flights(functional::detail::flights_of(program_)),
        meetings(program_.nodes.size(), no_node) {}

  const Program& program;
  std::vector<std::size_t> flights;
  std::vector<std::size_t> meetings;  ///< of each collective
  std::size_t next = 0;               ///< node
  std::map<GroupName, std::size_t> calls{};

  /// What it cannot do without, before its next node: collectives of its own. At its end, all.
  std::vector<std::size_t> needed() const {
    std::vector<std::size_t> nodes;
    if (next == program.nodes.size()) {
      for (std::size_t node = 0; node < next; ++node)
        if (program.nodes[node].kind == NodeKind::collective) nodes.push_back(node);
      return nodes;
    }
    if (program.nodes[next].kind == NodeKind::view) return {};
    for (const std::size_t value : program.nodes[next].inputs)
      if (flights[value] != no_node) nodes.push_back(flights[value]);
    return nodes;
  }
};

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

std::string told(const GroupName& group) {
  return (group.first.empty() ? "" : "'" + group.first + "' ") + listed(group.second);
}

/// So much of dimension 0 goes from each rank to each other one; nothing: equal parts.
std::int64_t split_at(const functional::Splits& splits, std::size_t place, std::int64_t whole,
                      std::size_t ranks) {
  return splits.has_value() ? (*splits)[place] : whole / static_cast<std::int64_t>(ranks);
}

class Match {
 public:
  explicit Match(std::span<const Program> programs) {
    for (const Program& program : programs) {
      functional::detail::require_sound(program);
      if (program.rank == -1) continue;  // it makes no calls
      if (!players_.emplace(program.rank, RankPlayer(program)).second)
        functional::detail::refuse("find_mismatch",
                                   "two programs are of " + rank_text(program.rank));
    }
  }

  std::string run() {
    if (std::string absent = absent_rank(); !absent.empty()) return absent;
    bool goes_on = true;
    while (goes_on && problem_.empty()) {
      goes_on = false;
      for (auto& [rank, player] : players_)
        while (problem_.empty() && step(rank, player)) goes_on = true;
    }
    return problem_.empty() ? what_is_stuck() : problem_;
  }

 private:
  std::string absent_rank() const {
    for (const auto& [rank, player] : players_)
      for (const ProgramGroup& group : player.program.groups)
        for (const int member : group.ranks)
          if (!players_.contains(member))
            return "there is no program of " + rank_text(member) + ", which is in the group " +
                   told({group.tag, group.ranks}) + " of " + rank_text(rank);
    return {};
  }

  bool has_ended(const RankPlayer& player, std::size_t node) const {
    return meetings_[player.meetings[node]].is_over();
  }

  /// Of those that it needs, one that has not ended.
  std::size_t awaited(const RankPlayer& player) const {
    for (const std::size_t node : player.needed())
      if (!has_ended(player, node)) return node;
    return no_node;
  }

  bool step(int rank, RankPlayer& player) {
    if (player.next == player.program.nodes.size() || awaited(player) != no_node) return false;
    if (player.program.nodes[player.next].kind == NodeKind::collective) arrive(rank, player);
    ++player.next;
    return true;
  }

  void arrive(int rank, RankPlayer& player) {
    const ProgramGroup& in = player.program.groups[player.program.nodes[player.next].group];
    const GroupName group{in.tag, in.ranks};
    const std::size_t number = ++player.calls[group];
    const auto [found, is_new] = known_.try_emplace({group, number}, meetings_.size());
    if (is_new) meetings_.push_back({group, number});
    Meeting& meeting = meetings_[found->second];
    player.meetings[player.next] = found->second;
    for (const auto& [other, node] : meeting.arrived) {
      const std::string difference = differ({rank, player.next}, {other, node}, group);
      if (difference.empty()) continue;
      problem_ = "call " + std::to_string(number) + " on the group " + told(group) + ": " +
                 call_text(other, node) + " does not match " + call_text(rank, player.next) + ": " +
                 difference;
      return;
    }
    meeting.arrived[rank] = player.next;
  }

  // --- What two calls must have in common.

  struct Place {
    int rank;
    std::size_t node;
  };

  std::string call_text(int rank, std::size_t node) const {
    return rank_text(rank) + "'s " + described(players_.at(rank).program, node);
  }

  const ProgramNode& node_at(const Place& place) const {
    return players_.at(place.rank).program.nodes[place.node];
  }

  std::string differ(const Place& one, const Place& other, const GroupName& group) const {
    const Collective& a = node_at(one).collective;
    const Collective& b = node_at(other).collective;
    if (a.operation != b.operation) return "they are different collectives";
    const bool reduces_here = reduces(traits_of(a.operation).type);
    if (reduces_here && a.reduction.kind() != b.reduction.kind())
      return "they reduce in different ways";
    if (a.root != b.root) return "their roots differ";
    if (a.destinations != b.destinations) return "their destinations differ";
    if (a.operation == Operation::all_to_all_single) return differ_in_splits(one, other, group);
    return differ_in_shapes(one, other);
  }

  using Operation = functional::Operation;

  const ArraySpec& input_at(const Place& place, std::size_t index) const {
    return players_.at(place.rank).program.values[node_at(place).inputs[index]];
  }

  std::string differ_in_shapes(const Place& one, const Place& other) const {
    const std::size_t count = node_at(one).inputs.size();
    if (count != node_at(other).inputs.size()) return "they have different numbers of arrays";
    for (std::size_t i = 0; i < count; ++i) {
      if (input_at(one, i).dtype != input_at(other, i).dtype) return "their dtypes differ";
      if (input_at(one, i).shape != input_at(other, i).shape) return "their shapes differ";
    }
    return node_at(one).collective.dimensions == node_at(other).collective.dimensions
               ? ""
               : "their dimensions differ";
  }

  std::string differ_in_splits(const Place& one, const Place& other, const GroupName& group) const {
    const ArraySpec& a = input_at(one, 0);
    const ArraySpec& b = input_at(other, 0);
    if (a.dtype != b.dtype) return "their dtypes differ";
    if (!std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end()))
      return "their shapes differ behind dimension 0";
    if (node_at(one).collective.input_splits.has_value() !=
        node_at(other).collective.input_splits.has_value())
      return "one of them has split sizes";
    std::string difference = between(one, other, group);
    return difference.empty() ? between(other, one, group) : difference;
  }

  std::string between(const Place& from, const Place& to, const GroupName& group) const {
    const std::vector<int>& ranks = group.second;
    const auto place = [&](int rank) {
      return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
    };
    const ArraySpec& sent = input_at(from, 0);
    const ArraySpec& received = input_at(to, 0);  // without splits as much as is sent
    const std::int64_t gives = split_at(node_at(from).collective.input_splits, place(to.rank),
                                        sent.shape[0], ranks.size());
    const std::int64_t takes = split_at(node_at(to).collective.output_splits, place(from.rank),
                                        received.shape[0], ranks.size());
    if (gives == takes) return {};
    return rank_text(from.rank) + " sends " + std::to_string(gives) + " to " + rank_text(to.rank) +
           ", which takes " + std::to_string(takes);
  }

  // --- Where nobody gets on.

  std::string what_is_stuck() const {
    for (const auto& [rank, player] : players_)
      if (awaited(player) != no_node) return chain_from(rank);
    return {};
  }

  /// From a rank to one that it waits for, and on, until one has come to its end or twice.
  std::string chain_from(int rank) const {
    std::string text;
    std::set<int> seen;
    while (true) {
      const RankPlayer& player = players_.at(rank);
      const std::size_t node = awaited(player);
      const Meeting& meeting = meetings_[player.meetings[node]];
      const int missing = *std::ranges::find_if(
          meeting.group.second, [&](int member) { return !meeting.arrived.contains(member); });
      text += (text.empty() ? "" : "; ") + rank_text(rank) + " waits in " +
              described(player.program, node) + ", call " + std::to_string(meeting.number) +
              " on the group " + told(meeting.group) + ", for " + rank_text(missing);
      if (players_.at(missing).next == players_.at(missing).program.nodes.size() ||
          awaited(players_.at(missing)) == no_node)
        return text + ", which never makes that call";
      if (!seen.insert(rank).second || seen.contains(missing))
        return "ranks wait for each other in a circle: " + text;
      rank = missing;
    }
  }

  std::map<int, RankPlayer> players_;
  std::vector<Meeting> meetings_;
  std::map<std::pair<GroupName, std::size_t>, std::size_t> known_;
  std::string problem_;
};

}  // namespace

std::string find_mismatch(std::span<const Program> of_all_ranks) {
  return Match(of_all_ranks).run();
}

}  // namespace hymn
