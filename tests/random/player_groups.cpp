// Groups of random programs: how they are made and end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/random/player.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

/// A path, perhaps with one algorithm for each collective, or a free choice.
GroupOptions draw_roads(Drawer& drawer, const ProcessGroup& free, const PlayerRules& rules) {
  std::string path = rules.path;
  const bool any_path = path.empty();
  if (any_path) path = drawer.one_of(roads_of(free, OpType::barrier)).path;
  if (any_path && drawer.one_in(3)) return {.path = every_path(rules.without)};
  if (any_path && drawer.one_in(3)) return {.path = path};
  std::string algorithms;
  for (const OpType type : collectives()) {
    std::vector<Road> choice = roads_of(free, type);
    std::erase_if(choice, [&](const Road& road) {
      return any_path ? road.path != path : path.find(road.path) == std::string::npos;
    });
    if (choice.empty()) continue;
    algorithms += (algorithms.empty() ? "" : ",") + drawer.one_of(choice).algorithm;
  }
  return {.path = path, .algo = algorithms};
}

/// A receive for which nothing is sent is taken back.
void expect_nothing_comes(ProcessGroup& group) {
  Buffer nothing(DataType::uint8, 100);
  const Request request = Request::recv(nothing, any_source, ProcessGroup::max_tag);
  if (group.size() == 1 || group.explain(request).algorithm.empty()) return;
  try {
    group.run(request, {.timeout = std::chrono::milliseconds(1)});
    ADD_FAILURE() << "a message that nobody has sent";
  } catch (const TimeoutError&) {
  }
  expect_untouched(nothing);
}

void expect_refusal(ProcessGroup& group) {
  std::vector<std::int32_t> in(3);
  std::vector<std::int32_t> out(4);
  try {
    group.all_reduce(in, out);
    ADD_FAILURE() << "counts that differ are not refused";
  } catch (const UsageError&) {
  }
}

}  // namespace

// The members alone draw what only they know of each other; what is drawn for all comes first.
GroupOptions Player::draw_options(const Step& step) {
  const ScriptGroup& made = script_.groups[step.made];
  GroupOptions options;
  const bool is_plain = common_.one_in(3);
  if (common_.one_in(4)) options.reproducibility = static_cast<Reproducibility>(common_.below(4));
  const std::uint64_t seed = common_.below(1'000'000'000);
  if (!is_plain) {
    std::vector<int> members = made.members;
    std::ranges::sort(members);
    ProcessGroup free = worlds_[made.world]->new_group(
        members, {.path = rules_.path.empty() ? every_path(rules_.without) : rules_.path});
    ++calls_;
    if (free.is_member()) {
      Drawer drawer(seed);
      const GroupOptions roads = draw_roads(drawer, free, rules_);
      options.path = roads.path;
      options.algo = roads.algo;
    }
    if (own_.one_in(2)) left_.push_back(free);
  }
  options.description =
      fmt::format("made in step {}: {} {}", step.number, options.path, options.algo);
  return options;
}

void Player::make(const Step& step) {
  settle();
  const ScriptGroup& script = script_.groups[step.made];
  GroupOptions options = draw_options(step);
  options.local_sync = common_.one_in(3) && !script.is_split;
  World& world = *worlds_[script.world];
  Seat& seat = seats_[step.made];
  const bool is_outside = options.local_sync && !is_member(step.made);
  if (is_outside && own_.one_in(2)) return;
  ++calls_;
  if (is_outside) {
    EXPECT_FALSE(world.new_group(script.members, options).valid());
    return;
  }
  if (script.is_split) {
    seat.group = split(script, options);
  } else if (own_.one_in(2)) {
    seat.group = world.new_group(script.members, options);
    EXPECT_EQ(seat.group.membership().ranks, script.members);
  } else {
    seat.making = world.new_group_async(script.members, options);
  }
}

// The members are in the order of their keys; who stays outside is in a group of those that do, or
// in none.
ProcessGroup Player::split(const ScriptGroup& script, const GroupOptions& options) {
  World& world = *worlds_[script.world];
  const auto place = std::ranges::find(script.members, rank());
  if (place == script.members.end()) {
    const int color = own_.one_in(2) ? ProcessGroup::no_color : 7;
    ProcessGroup others = world.split(color);
    EXPECT_EQ(others.valid(), color == 7);
    if (others.valid()) left_.push_back(others);
    return {};
  }
  const int key = 10 * static_cast<int>(place - script.members.begin()) - 20;
  ProcessGroup made = world.split(3, key, options);
  EXPECT_EQ(made.membership().ranks, script.members);
  return made;
}

void Player::end_group(const Step& step) {
  ProcessGroup ended = group(step.group);
  seats_[step.group] = {};
  if (!ended.valid()) return;  // made by shrink() of others
  settle(step.group);
  ++calls_;
  switch (own_.below(3)) {
    case 0:
      ended.destroy();
      for (const Flight& flight : flights_)
        if (flight.group == step.group) {
          EXPECT_TRUE(flight.work.is_completed()) << "destroy() has not waited for " << flight.what;
        }
      break;
    case 1:
      left_.push_back(ended);
      break;
    default:  // it ends with its last handle
      for (std::size_t i = flights_.size(); i-- > 0;)
        if (i < flights_.size() && flights_[i].group == step.group) finish(i);
  }
}

void Player::shrink(const Step& step) {
  common_.below(3);
  const int culprit = common_.one_of(script_.groups[step.group].members);
  ProcessGroup old = group(step.group);
  seats_[step.group] = {};
  if (!is_member(step.group)) return;
  settle(step.group);
  ++calls_;
  if (step.deed == Deed::abort && rank() == culprit)
    old.abort(fmt::format("enough of it in step {}", step.number));
  ProcessGroup made = old.shrink();
  EXPECT_TRUE(old.is_aborted());
  EXPECT_EQ(made.membership().ranks, old.membership().ranks);
  EXPECT_EQ(made.membership().epoch, old.membership().epoch + 1);
  seats_[step.made].group = made;
  if (own_.one_in(2))
    old.destroy();
  else
    left_.push_back(old);
}

/// What a rank does for itself, between the steps.
void Player::aside() {
  if (own_.one_in(8)) std::this_thread::sleep_for(std::chrono::microseconds(own_.below(300)));
  if (own_.one_in(5) && !flights_.empty())
    static_cast<void>(flights_[own_.below(flights_.size())].work.test());
  if (own_.one_in(8) && !left_.empty() && (rules_.makes_in_flight || flights_.empty())) {
    std::swap(left_[own_.below(left_.size())], left_.back());
    left_.back().destroy();
    left_.pop_back();
  }
  const std::size_t id = own_.below(seats_.size());
  Seat& seat = seats_[id];
  if (own_.one_in(6) && seat.group.valid() && seat.group.is_member()) look_around(seat, id);
}

void Player::look_around(Seat& seat, std::size_t id) {
  ++calls_;
  ProcessGroup& group = seat.group;
  const auto look = [&] {
    switch (own_.below(4)) {
      case 0:
        group.wait_for_pending_works();
        for (const Flight& flight : flights_)
          EXPECT_TRUE(flight.group != id || flight.work.is_completed()) << flight.what;
        break;
      case 1:
        return expect_nothing_comes(group);
      case 2:
        if (script_.ends_together) expect_refusal(group);
        break;
      default:
        EXPECT_FALSE(worlds_.front()->flight_record({.symbols = false}).empty());
    }
  };
  attempt(id, look);
}

}  // namespace hymn::test
