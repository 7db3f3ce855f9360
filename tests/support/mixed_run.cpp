#include "tests/support/mixed_run.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

/// A path, perhaps with one algorithm for each collective, or a free choice.
GroupOptions draw_options(const ProcessGroup& free, std::uint64_t seed, std::string path) {
  Drawer drawer(seed);
  const bool any_path = path.empty();
  if (any_path) path = drawer.one_of(roads_of(free, OpType::barrier)).path;
  if (any_path && drawer.one_in(3)) return {.description = "free", .path = every_path()};
  if (drawer.one_in(3)) return {.description = path, .path = path};
  std::string algorithms;
  for (const OpType type : collectives()) {
    std::vector<Road> choice = roads_of(free, type);
    std::erase_if(choice, [&](const Road& road) { return road.path != path; });
    if (choice.empty()) continue;
    algorithms += (algorithms.empty() ? "" : ",") + drawer.one_of(choice).algorithm;
  }
  return {.description = path + ": " + algorithms, .path = path, .algo = algorithms};
}

int draw_rank(Drawer& drawer, std::size_t ranks) { return static_cast<int>(drawer.below(ranks)); }

std::vector<int> draw_members(Drawer& drawer, int ranks) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank)
    if (!drawer.one_in(3)) members.push_back(rank);
  if (members.empty()) members.push_back(draw_rank(drawer, static_cast<std::size_t>(ranks)));
  return members;
}

}  // namespace

void Flight::check() const {
  SCOPED_TRACE(what);
  if (call) call->check();
  if (message) {
    expect_filled(*message, source, tag);
    EXPECT_TRUE(message->guards_intact());
  }
}

MixedRun::MixedRun(World& world, std::uint64_t seed, std::string path)
    : world_(world),
      path_(std::move(path)),
      common_(seed),
      own_(seed * 1009 + static_cast<std::uint64_t>(world.rank())) {
  for (std::uint64_t i = 0; i < 5; ++i) make_group(seed * 31 + i);
}

void MixedRun::set_timeout(Timeout timeout) {
  for (ProcessGroup& group : groups_) group.set_timeout(timeout);
}

void MixedRun::run(int steps) {
  for (const int last = steps_ + steps; steps_ < last; ++steps_) {
    next(steps_);
    if (own_.one_in(8)) std::this_thread::sleep_for(std::chrono::microseconds(own_.below(300)));
    while (flights_.size() > own_.below(9)) finish_one();
  }
  while (!flights_.empty()) finish_one();
}

void MixedRun::end() {
  while (!groups_.empty()) {
    std::swap(groups_[own_.below(groups_.size())], groups_.back());
    groups_.back().destroy();
    groups_.pop_back();
  }
}

void MixedRun::make_group(std::uint64_t seed) {
  const std::vector<int> members = draw_members(common_, world_.size());
  ProcessGroup free = world_.new_group(members, {.path = every_path()});
  GroupOptions options;
  if (free.is_member()) options = draw_options(free, seed, path_);
  groups_.push_back(world_.new_group(members, options));
  free.destroy();
}

// Whatever a rank does with it, it draws as many common numbers as all others.
void MixedRun::next(int step) {
  ProcessGroup& group = groups_[common_.below(groups_.size())];
  const std::size_t members = ranks_of(group).size();
  const std::size_t count = draw_count();
  if (common_.one_in(4)) {
    const int from = draw_rank(common_, members);
    const int to = draw_rank(common_, members);
    if (from != to) exchange(group, from, to, step % ProcessGroup::max_tag, count);
    return;
  }
  const OpType type = common_.one_of(collectives());
  const Cell cell = common_.one_of(cells_of(type));
  const CallPlan plan = common_.plan(type, cell, count, static_cast<int>(members));
  if (group.is_member()) call(group, plan);
}

std::size_t MixedRun::draw_count() {
  if (common_.one_in(40)) return common_.below(200000);
  return common_.below(std::size_t{1} << common_.below(14));
}

void MixedRun::call(ProcessGroup& group, const CallPlan& plan) {
  Flight flight{.what = group.description() + ": " + describe(plan)};
  flight.call = std::make_unique<KnownCall>(group, plan);
  const Request& request = flight.call->request();
  finish_or_keep(std::move(flight), group, request);
}

void MixedRun::exchange(ProcessGroup& group, int from, int to, int tag, std::size_t count) {
  if (group.rank() != from && group.rank() != to) return;
  const int source = ranks_of(group)[static_cast<std::size_t>(from)];
  const int destination = ranks_of(group)[static_cast<std::size_t>(to)];
  Flight flight{.what = group.description() + ": message " + std::to_string(tag) + " of " +
                        std::to_string(count) + " bytes",
                .source = source,
                .tag = tag};
  flight.message = std::make_unique<Buffer>(DataType::uint8, count);
  if (group.rank() == from) fill(*flight.message, source, tag);
  const BufferView view = *flight.message;
  const Request request = group.rank() == from ? Request::send(view, destination, tag)
                                               : Request::recv(view, source, tag);
  finish_or_keep(std::move(flight), group, request);
}

void MixedRun::finish_or_keep(Flight flight, ProcessGroup& group, const Request& request) {
  if (group.explain(request).algorithm.empty()) return;  // refused, and so on all members
  flights_.push_back(std::move(flight));
  if (own_.one_in(2)) {
    flights_.back().work = group.start(request);
  } else {
    group.run(request);
    flights_.back().check();
    flights_.pop_back();
  }
}

void MixedRun::finish_one() {
  std::swap(flights_[own_.below(flights_.size())], flights_.back());
  Work work = flights_.back().work;
  for (std::size_t tries = own_.below(20); tries > 0 && !work.test(); --tries)
    std::this_thread::yield();
  work.wait();
  flights_.back().check();
  flights_.pop_back();
}

}  // namespace hymn::test
