// Plays the programs of all ranks together, without running anything.
//
// A call is started, and waited for by a wait, or when something is done with its result. It ends
// when all ranks of its group have started theirs: the n-th call of each on the group; a message
// when its receiver has come, as if nothing kept it for that rank. Where nobody gets on any more,
// what they wait for says why.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "functional/difference.hpp"
#include "functional/fail.hpp"
#include "functional/program.hpp"

namespace hymn {
namespace {

using functional::detail::described;
using functional::detail::difference_of;
using functional::detail::listed;
using functional::detail::makes_call;
using functional::detail::no_node;
using functional::detail::one_tells_all;

/// What names a group on all ranks.
using GroupName = std::pair<std::string, std::vector<int>>;

/// Where calls are matched one by one.
struct Channel {
  GroupName group;
  std::vector<int> ranks;  ///< that meet: all of the group, or a sender and its receiver
  bool is_message = false;
  int tag = 0;  ///< of messages
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

/// One call, made by all ranks of a group; or one message.
struct Meeting {
  Channel channel;
  std::size_t number = 0;                ///< of the calls there, from 1
  std::map<int, std::size_t> arrived{};  ///< which node of a rank's program
  bool is_known = true;                  ///< false: any message could be that which somebody takes
  bool is_over() const { return !is_known || arrived.size() == channel.ranks.size(); }
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
  std::map<Channel, std::size_t> calls{};

  /// What it cannot do without, before its next node: calls of its own. At its end, all.
  std::vector<std::size_t> needed() const {
    std::vector<std::size_t> nodes;
    if (next == program.nodes.size()) {
      for (std::size_t node = 0; node < next; ++node)
        if (makes_call(program.nodes[node])) nodes.push_back(node);
      return nodes;
    }
    if (program.nodes[next].kind == NodeKind::view) return {};
    nodes = program.nodes[next].calls;
    for (const std::size_t value : program.nodes[next].inputs)
      if (flights[value] != no_node) nodes.push_back(flights[value]);
    return nodes;
  }
};

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

std::string told(const GroupName& group) {
  return (group.first.empty() ? "" : "'" + group.first + "' ") + listed(group.second);
}

std::string told(const Meeting& meeting) {
  const Channel& channel = meeting.channel;
  const std::string number = std::to_string(meeting.number);
  if (!channel.is_message) return "call " + number + " on the group " + told(channel.group);
  return "message " + number + " from " + rank_text(channel.ranks[0]) + " to " +
         rank_text(channel.ranks[1]) + " with tag " + std::to_string(channel.tag) +
         " on the group " + told(channel.group);
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
      for (const ProgramNode& node : program.nodes)
        if (node.kind == NodeKind::call && node.call.type == OpType::recv &&
            node.call.peer == any_source)
          unknown_.insert(name_of_group(program, node));
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
    if (makes_call(player.program.nodes[player.next])) arrive(rank, player);
    ++player.next;
    return true;
  }

  static GroupName name_of_group(const Program& program, const ProgramNode& node) {
    const ProgramGroup& group = program.groups[node.group];
    return {group.tag, group.ranks};
  }

  static Channel channel_of(int rank, const RankPlayer& player) {
    const ProgramNode& node = player.program.nodes[player.next];
    const GroupName group = name_of_group(player.program, node);
    const int peer = node.call.peer;
    if (!is_message(type_of(node))) return {.group = group, .ranks = group.second};
    const bool sends = node.call.type == OpType::send;
    return {.group = group,
            .ranks = sends ? std::vector{rank, peer} : std::vector{peer, rank},
            .is_message = true,
            .tag = node.call.tag};
  }

  /// A rank's message to itself is there as soon as it is sent.
  bool is_known(const Channel& message) const {
    return message.ranks[0] != message.ranks[1] && !unknown_.contains(message.group);
  }

  void arrive(int rank, RankPlayer& player) {
    const Channel channel = channel_of(rank, player);
    const std::size_t number = ++player.calls[channel];
    const auto [found, is_new] = known_.try_emplace({channel, number}, meetings_.size());
    if (is_new)
      meetings_.push_back({.channel = channel,
                           .number = number,
                           .is_known = !channel.is_message || is_known(channel)});
    Meeting& meeting = meetings_[found->second];
    player.meetings[player.next] = found->second;
    for (const auto& [other, node] : meeting.arrived) {
      if (!meeting.is_known) break;
      const std::string difference = difference_of(
          {players_.at(other).program, node}, {player.program, player.next}, channel.group.second);
      if (difference.empty()) {
        if (one_tells_all({player.program, player.next})) break;
        continue;
      }
      problem_ = told(meeting) + ": " + call_text(other, node) + " does not match " +
                 call_text(rank, player.next) + ": " + difference;
      return;
    }
    meeting.arrived[rank] = player.next;
  }

  std::string call_text(int rank, std::size_t node) const {
    return rank_text(rank) + "'s " + described(players_.at(rank).program, node);
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
          meeting.channel.ranks, [&](int member) { return !meeting.arrived.contains(member); });
      text += (text.empty() ? "" : "; ") + rank_text(rank) + " waits in " +
              described(player.program, node) + ", " + told(meeting) + ", for " +
              rank_text(missing);
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
  std::map<std::pair<Channel, std::size_t>, std::size_t> known_;
  std::set<GroupName> unknown_;  ///< groups in which somebody takes messages from anyone
  std::string problem_;
};

}  // namespace

std::string find_mismatch(std::span<const Program> of_all_ranks) {
  return Match(of_all_ranks).run();
}

}  // namespace hymn
