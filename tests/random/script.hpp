// What a random program does, from its seed alone: every rank makes the same script, and plays its
// own part of it (player.hpp).
//
// Each step draws from a seed of its own, so that steps can be left out, to find out which of them
// a failure needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace hymn::test {

enum class Deed : std::uint8_t {
  call,        ///< one collective
  coalesced,   ///< several of one kind together
  message,     ///< one message
  series,      ///< several messages of one pair and tag
  any_source,  ///< several members send to one, who takes them as they come
  batch,       ///< sends and receives of several pairs as one
  make,        ///< a new group
  end,         ///< a group ends, with work in flight
  shrink,      ///< a group is made anew of all its members, with work in flight
  abort,       ///< the same after one of them has given it up
};

inline constexpr std::size_t deed_count = 10;

std::string_view to_string(Deed deed);

struct Step {
  int number = 0;
  std::uint64_t seed = 0;
  Deed deed = Deed::call;
  std::size_t group = 0;  ///< that it is about: an index into Script::groups
  std::size_t made = 0;   ///< the group that it makes, where it makes one
};

struct ScriptGroup {
  std::vector<int> members;  ///< global ranks
  std::size_t world = 0;     ///< which of the worlds it belongs to
  bool mortal = false;       ///< it will be given up: what is called on it may end so
  bool is_split = false;     ///< off the group of all ranks, in an order of its own
};

struct ScriptOptions {
  int ranks = 1;
  std::size_t worlds = 1;  ///< that are there at the same time
  int first = 0;           ///< the number of the first step
  int steps = 60;
  bool shrinks = true;
  /// So many groups are made first, and no others later; 0: groups come and go.
  int first_makes = 0;
  /// Which steps are played; unset: all.
  std::function<bool(int)> wanted{};
};

struct Script {
  std::vector<ScriptGroup> groups;  ///< the first ones are those of the worlds
  std::vector<Step> steps;
  /// Nobody leaves before all have played all steps. Else there are no calls that are refused: they
  /// would give up groups whose members have left, as calls that cannot complete.
  bool ends_together = true;

  static Script draw(std::uint64_t seed, const ScriptOptions& options);
};

}  // namespace hymn::test
