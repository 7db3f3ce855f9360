#include "tests/random/script.hpp"

#include <algorithm>
#include <array>

#include "tests/support/known_call.hpp"

namespace hymn::test {
namespace {

constexpr std::array<std::string_view, deed_count> names = {
    "call",  "coalesced", "message", "series", "any_source",
    "batch", "make",      "end",     "shrink", "abort"};

/// How often each deed is drawn, of a hundred times.
constexpr std::array<std::size_t, deed_count> shares = {47, 6, 12, 6, 4, 6, 9, 6, 3, 1};

// More than are alive at once cost time and find nothing new.
constexpr std::size_t most_groups = 9;

Deed draw_deed(Drawer& drawer) {
  std::size_t drawn = drawer.below(100);
  std::size_t deed = 0;
  while (drawn >= shares[deed]) drawn -= shares[deed++];
  return static_cast<Deed>(deed);
}

std::vector<int> draw_members(Drawer& drawer, int ranks) {
  std::vector<int> members;
  const std::size_t chances = 2 + drawer.below(4);
  for (int rank = 0; rank < ranks; ++rank)
    if (!drawer.one_in(chances)) members.push_back(rank);
  if (members.empty())
    members.push_back(static_cast<int>(drawer.below(static_cast<std::size_t>(ranks))));
  return members;
}

/// In the order of the group's ranks.
ScriptGroup draw_group(Drawer& drawer, const ScriptOptions& options) {
  ScriptGroup group{.members = draw_members(drawer, options.ranks),
                    .world = drawer.below(options.worlds),
                    .is_split = drawer.one_in(4)};
  if (group.is_split)
    for (std::size_t i = group.members.size(); i-- > 1;)
      std::swap(group.members[i], group.members[drawer.below(i + 1)]);
  return group;
}

/// The groups that are there at some step.
class Scene {
 public:
  Scene(Script& script, const ScriptOptions& options) : script_(script), options_(options) {
    ScriptGroup all;
    for (int rank = 0; rank < options.ranks; ++rank) all.members.push_back(rank);
    for (all.world = 0; all.world < options.worlds; ++all.world) add(all);
  }

  void play(int number, std::uint64_t seed) {
    Drawer drawer(seed);
    Step step{.number = number, .seed = seed, .deed = draw_deed(drawer)};
    const std::size_t drawn = drawer.below(alive_.size());
    step.group = alive_[drawn];
    // The groups of all ranks stay to the end.
    const bool may_go = step.group >= options_.worlds;
    if (step.deed == Deed::make && alive_.size() > most_groups) step.deed = Deed::end;
    if (options_.first_makes > 0 && step.deed >= Deed::make) step.deed = Deed::call;
    if (number - options_.first < options_.first_makes) step.deed = Deed::make;
    if (step.deed >= Deed::end && !may_go) step.deed = Deed::call;
    if (step.deed > Deed::end && !options_.shrinks) step.deed = Deed::end;
    switch (step.deed) {
      case Deed::make:
        step.made = add(draw_group(drawer, options_));
        break;
      case Deed::shrink:
      case Deed::abort:
        script_.groups[step.group].mortal = true;
        step.made = add({.members = script_.groups[step.group].members,
                         .world = script_.groups[step.group].world});
        [[fallthrough]];
      case Deed::end:
        alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(drawn));
        break;
      case Deed::call:
      case Deed::coalesced:
      case Deed::message:
      case Deed::series:
      case Deed::any_source:
      case Deed::batch:
        break;
    }
    script_.steps.push_back(step);
  }

 private:
  std::size_t add(ScriptGroup group) {
    script_.groups.push_back(std::move(group));
    alive_.push_back(script_.groups.size() - 1);
    return alive_.back();
  }

  Script& script_;
  const ScriptOptions& options_;
  std::vector<std::size_t> alive_;
};

}  // namespace

std::string_view to_string(Deed deed) { return names[static_cast<std::size_t>(deed)]; }

Script Script::draw(std::uint64_t seed, const ScriptOptions& options) {
  Script script;
  script.ends_together = seed % 3 != 0;
  Scene scene(script, options);
  for (int number = options.first; number < options.first + options.steps; ++number)
    if (!options.wanted || options.wanted(number))
      scene.play(number, seed * 1'000'003 + static_cast<std::uint64_t>(number));
  return script;
}

}  // namespace hymn::test
