#include "tests/random/player.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace hymn::test {
namespace {

using std::chrono::microseconds;

bool tells_steps() {
  static const bool tells = std::getenv("RANDOM_TRACE") != nullptr;
  return tells;
}

/// A failed expectation ends the program: what follows would tell nothing new.
void stop_at_failures() {
  if (::testing::Test::HasFailure()) throw std::runtime_error("wrong");
}

}  // namespace

Player::Player(std::span<World* const> worlds, const Script& script, PlayerRules rules)
    : worlds_(worlds.begin(), worlds.end()),
      script_(script),
      rules_(std::move(rules)),
      seats_(script.groups.size()) {
  for (std::size_t i = 0; i < worlds_.size(); ++i) seats_[i].group = worlds_[i]->group();
}

void Player::play(std::size_t most) {
  for (; most > 0 && next_ < script_.steps.size(); --most) play_step(script_.steps[next_++]);
  finish_all_but({});
  if (script_.ends_together)
    for (World* const world : worlds_) world->group().barrier();
}

void Player::play_step(const Step& step) {
  if (rules_.on_step) rules_.on_step();
  if (tells_steps())
    fmt::print(stderr, "rank {}: step {}: {} on group {}\n", rank(), step.number,
               to_string(step.deed), step.group);
  common_ = Drawer(step.seed + 1);
  own_ = Drawer(step.seed * 37 + 11 + static_cast<std::uint64_t>(rank()));
  at_ = step.number;
  take(step);
  aside();
  const std::size_t most = own_.below(12);
  while (flights_.size() > most) finish(own_.below(flights_.size()));
}

void Player::take(const Step& step) {
  switch (step.deed) {
    case Deed::call:
      return call(step);
    case Deed::coalesced:
      return coalesced(step);
    case Deed::message:
      return message(step);
    case Deed::series:
      return series(step);
    case Deed::any_source:
      return any_source_message(step);
    case Deed::batch:
      return batch(step);
    case Deed::make:
      return make(step);
    case Deed::end:
      return end_group(step);
    case Deed::shrink:
    case Deed::abort:
      return shrink(step);
  }
}

void Player::give_up(const std::string& reason) {
  for (Seat& seat : seats_)
    if (seat.group.valid() && seat.group.is_member() && !seat.group.is_aborted())
      seat.group.abort(reason);
}

std::string Player::where() const { return fmt::format("in step {}{}", at_, waits_for_); }

void Player::end() {
  for (std::size_t id = worlds_.size(); id < seats_.size(); ++id)
    if (seats_[id].making || seats_[id].group.valid()) left_.push_back(group(id));
  seats_.resize(worlds_.size());
  while (!left_.empty()) {
    std::swap(left_[own_.below(left_.size())], left_.back());
    left_.back().destroy();
    left_.pop_back();
  }
}

ProcessGroup& Player::group(std::size_t id) {
  Seat& seat = seats_[id];
  if (seat.making) {
    settle();
    seat.group = seat.making->get();
    seat.making.reset();
    EXPECT_EQ(seat.group.membership().ranks, script_.groups[id].members);
  }
  return seat.group;
}

bool Player::is_member(std::size_t id) const {
  const std::vector<int>& members = script_.groups[id].members;
  return std::find(members.begin(), members.end(), rank()) != members.end();
}

bool Player::attempt(std::size_t group, const std::function<void()>& deed) {
  try {
    deed();
    return true;
  } catch (const AbortedError& error) {
    const std::string_view text = error.what();
    const bool expected = script_.groups[group].mortal &&
                          (text.find("shrinks the group") != std::string_view::npos ||
                           text.find("enough of it in step") != std::string_view::npos);
    if (!expected) throw;
    return false;
  }
}

void Player::run_or_start(Flight flight, const Attempt& run, const std::function<Work()>& start) {
  ++calls_;
  flights_.push_back(std::move(flight));
  Flight& kept = flights_.back();
  SCOPED_TRACE(kept.what);
  const std::size_t group = kept.group;
  bool is_over = false;
  const bool is_right = attempt(group, [&] {
    if (!own_.one_in(3)) {
      kept.work = start();
      return;
    }
    const std::vector<RecvStatus> statuses = run();
    is_over = true;
    kept.check(statuses);
  });
  stop_at_failures();
  if (is_right && !is_over) return;
  if (!is_right) lost_.push_back(std::move(flights_.back()));
  flights_.pop_back();
}

void Player::wait_somehow(Work& work) {
  const std::size_t way = own_.below(6);
  if (way == 0)
    for (std::size_t tries = own_.below(20); tries > 0 && !work.test(); --tries)
      std::this_thread::yield();
  if (way == 1)
    while (!work.test()) std::this_thread::yield();
  if (way == 2) {
    try {
      return work.wait(microseconds(own_.below(2000)));
    } catch (const TimeoutError&) {  // of this wait: the operation's own comes once more
    }
  }
  if (way == 3) {
    static_cast<void>(work.get_future().get());
    return;
  }
  work.wait();
}

void Player::finish(std::size_t index) {
  std::swap(flights_[index], flights_.back());
  Flight& flight = flights_.back();
  SCOPED_TRACE(fmt::format("step {}: {}", flight.step, flight.what));
  waits_for_ = fmt::format(", waiting for step {}, {}", flight.step, flight.what);
  const bool is_right = attempt(flight.group, [&] { wait_somehow(flight.work); });
  waits_for_.clear();
  if (is_right) {
    EXPECT_TRUE(flight.work.is_completed());
    EXPECT_FALSE(flight.work.error());
    const OpType type = flight.work.type();
    std::vector<RecvStatus> statuses;
    if (type == OpType::recv) statuses = {flight.work.status()};
    if (type == OpType::batch) statuses = flight.work.statuses();
    flight.check(statuses);
  } else {
    lost_.push_back(std::move(flight));
  }
  flights_.pop_back();
  stop_at_failures();
}

void Player::finish_all_but(std::optional<std::size_t> group) {
  const auto stays = [&](const Flight& flight) { return group && flight.group == *group; };
  while (true) {
    const auto first = std::find_if_not(flights_.begin(), flights_.end(), stays);
    if (first == flights_.end()) return;
    finish(static_cast<std::size_t>(first - flights_.begin()));
  }
}

void Player::settle(std::optional<std::size_t> but) {
  if (!rules_.makes_in_flight) finish_all_but(but);
}

}  // namespace hymn::test
