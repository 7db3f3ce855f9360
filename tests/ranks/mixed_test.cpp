// Everything mixed at random, from a seed: groups that overlap, each with an algorithm of its own
// forced upon it or none, and on them collectives and messages of any size, blocking and
// asynchronous, several in flight, waited for in any order, on ranks that are late by chance. All
// ranks derive the same schedule from the seed; what is only theirs they draw for themselves.
//
// TEST_SEED=N repeats one seed; TEST_SEEDS says how many are tried (10).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// A path, perhaps with one algorithm for each collective, or a free choice.
GroupOptions draw_options(const ProcessGroup& free, std::uint64_t seed) {
  Drawer drawer(seed);
  const std::vector<Road> roads = roads_of(free, OpType::barrier);
  const std::string path = drawer.one_of(roads).path;
  if (drawer.one_in(3)) return {.description = "free", .path = every_path()};
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

std::vector<int> draw_members(Drawer& drawer, int ranks) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank)
    if (!drawer.one_in(3)) members.push_back(rank);
  if (members.empty())
    members.push_back(static_cast<int>(drawer.below(static_cast<std::size_t>(ranks))));
  return members;
}

/// A message of a member to another, as either of them sees it.
struct Message {
  int from;
  int to;
  int tag;
  std::size_t count;
};

/// Something in flight: a collective or a message.
struct Flight {
  std::string what;
  Work work{};
  std::unique_ptr<KnownCall> call{};
  std::unique_ptr<Buffer> received{};
  int source = 0;
  int tag = 0;

  void check() const {
    SCOPED_TRACE(what);
    if (call) call->check();
    if (received) {
      expect_filled(*received, source, tag);
      EXPECT_TRUE(received->guards_intact());
    }
  }
};

class MixedRun {
 public:
  MixedRun(World& world, std::uint64_t seed)
      : world_(world),
        rank_(world.rank()),
        common_(seed),
        own_(seed * 1009 + static_cast<std::uint64_t>(rank_)) {
    for (std::uint64_t i = 0; i < 5; ++i) make_group(seed * 31 + i);
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      next(step);
      if (own_.one_in(8)) std::this_thread::sleep_for(std::chrono::microseconds(own_.below(300)));
      while (flights_.size() > own_.below(9)) finish_one();
    }
    while (!flights_.empty()) finish_one();
    // In an order of its own on every rank.
    while (!groups_.empty()) {
      std::swap(groups_[own_.below(groups_.size())], groups_.back());
      groups_.back().destroy();
      groups_.pop_back();
    }
  }

 private:
  void make_group(std::uint64_t seed) {
    const std::vector<int> members = draw_members(common_, world_.size());
    ProcessGroup free = world_.new_group(members, {.path = every_path()});
    GroupOptions options;
    if (free.is_member()) options = draw_options(free, seed);
    groups_.push_back(world_.new_group(members, options));
    free.destroy();
  }

  // Whatever a rank does with it, it draws as many numbers as all others.
  void next(int step) {
    ProcessGroup& group = groups_[common_.below(groups_.size())];
    const int members = static_cast<int>(ranks_of(group).size());
    const std::size_t count = draw_count();
    const bool is_message = common_.one_in(4);
    if (is_message) {
      const int from = static_cast<int>(common_.below(as_count(members)));
      const int to = static_cast<int>(common_.below(as_count(members)));
      if (from != to) exchange(group, {from, to, step, count});
      return;
    }
    const OpType type = common_.one_of(types_);
    const CallPlan plan = common_.plan(type, common_.one_of(cells_of(type)), count, members);
    if (group.is_member()) call(group, plan);
  }

  std::size_t draw_count() {
    if (common_.one_in(40)) return common_.below(200000);
    return common_.below(std::size_t{1} << common_.below(14));
  }

  void call(ProcessGroup& group, const CallPlan& plan) {
    Flight flight{.what = group.description() + ": " + describe(plan)};
    flight.call = std::make_unique<KnownCall>(group, plan);
    const Request& request = flight.call->request();
    finish_or_keep(std::move(flight), group, request);
  }

  void exchange(ProcessGroup& group, const Message& message) {
    if (group.rank() != message.from && group.rank() != message.to) return;
    const int from = ranks_of(group)[as_count(message.from)];
    const int to = ranks_of(group)[as_count(message.to)];
    Flight flight{.what = group.description() + ": message " + std::to_string(message.tag) +
                          " of " + std::to_string(message.count),
                  .source = from,
                  .tag = message.tag};
    if (rank_ == from) {
      flight.received =
          std::make_unique<Buffer>(filled(DataType::uint8, message.count, from, message.tag));
      const Request request = Request::send(*flight.received, to, message.tag);
      finish_or_keep(std::move(flight), group, request);
    } else {
      flight.received = std::make_unique<Buffer>(DataType::uint8, message.count);
      const Request request = Request::recv(*flight.received, from, message.tag);
      finish_or_keep(std::move(flight), group, request);
    }
  }

  void finish_or_keep(Flight flight, ProcessGroup& group, const Request& request) {
    if (group.explain(request).algorithm.empty()) return;  // refused, and so on all members
    if (own_.one_in(2)) {
      group.run(request);
      flight.check();
    } else {
      flight.work = group.start(request);
      flights_.push_back(std::move(flight));
    }
  }

  void finish_one() {
    std::swap(flights_[own_.below(flights_.size())], flights_.back());
    Flight flight = std::move(flights_.back());
    flights_.pop_back();
    for (std::size_t tries = own_.below(20); tries > 0 && !flight.work.test(); --tries)
      std::this_thread::yield();
    flight.work.wait();
    flight.check();
  }

  static std::size_t as_count(int number) { return static_cast<std::size_t>(number); }

  World& world_;
  int rank_;
  Drawer common_;
  Drawer own_;
  const std::vector<OpType> types_ = collectives();
  std::vector<ProcessGroup> groups_;
  std::vector<Flight> flights_;
};

void run_seed(World& world, std::uint64_t seed) {
  const std::string repeat = "TEST_SEED=" + std::to_string(seed) + " repeats this";
  SCOPED_TRACE(repeat);
  try {
    MixedRun(world, seed).run(80);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << world.rank() << ": " << error.what();
    throw;
  }
}

RANK_TEST(Mixed, FromSeeds) {
  if (const std::uint64_t seed = number_from("TEST_SEED", 0); seed != 0)
    return run_seed(world, seed);
  const std::uint64_t seeds = number_from("TEST_SEEDS", 10);
  // Other ones for other numbers of ranks.
  const auto first = static_cast<std::uint64_t>(world.size()) * 10000;
  for (std::uint64_t seed = first + 1; seed <= first + seeds; ++seed) run_seed(world, seed);
}

}  // namespace
}  // namespace hymn::test
