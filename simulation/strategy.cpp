#include "simulation/strategy.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace hymn::sim {
namespace {

using Random = std::mt19937_64;

// The library's distributions differ from one to the next: a seed should mean the same everywhere.
std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }

bool is_able(const Turn& turn, int thread) { return std::ranges::binary_search(turn.able, thread); }

class RandomStrategy final : public Strategy {
 public:
  explicit RandomStrategy(std::uint64_t seed) : random_(seed) {}
  int next(const Turn& turn) override {
    // There are many locks, and few of them matter.
    if (turn.point == Point::lock && is_able(turn, turn.current) && below(random_, 8) != 0)
      return turn.current;
    return turn.able[below(random_, turn.able.size())];
  }

 private:
  Random random_;
};

class RoundRobinStrategy final : public Strategy {
 public:
  int next(const Turn& turn) override { return next_after(turn); }
};

class PriorityStrategy final : public Strategy {
 public:
  PriorityStrategy(std::uint64_t seed, int changes) : random_(seed) {
    // How many points there will be is not known: near the beginning there are more changes.
    for (int change = 0; change < changes; ++change) {
      const std::uint64_t most = std::uint64_t{16} << below(random_, 12);
      change_at_.insert(1 + below(random_, most));
    }
  }
  int next(const Turn& turn) override {
    // Who looks in vain again and again would keep those from going on for whom it waits.
    const bool waits = turn.point == Point::waits && is_able(turn, turn.current);
    if (change_at_.erase(++turns_) > 0 || waits) priority_[turn.current] = --lowest_;
    return *std::ranges::max_element(turn.able, {},
                                     [this](int thread) { return priority(thread); });
  }

 private:
  std::int64_t priority(int thread) {
    const auto [found, is_new] = priority_.try_emplace(thread, 0);
    if (is_new) found->second = static_cast<std::int64_t>(below(random_, 1U << 30));
    return found->second;
  }

  Random random_;
  std::set<std::uint64_t> change_at_;
  std::map<int, std::int64_t> priority_;
  std::int64_t lowest_ = 0;
  std::uint64_t turns_ = 0;
};

class ReplayStrategy final : public Strategy {
 public:
  explicit ReplayStrategy(const std::vector<ScheduleChange>& changes) {
    for (const ScheduleChange& change : changes)
      next_[{change.thread, change.point, change.waits}] = change.next;
  }
  int next(const Turn& turn) override {
    const auto found = next_.find({turn.current, turn.points, turn.waits});
    return found != next_.end() && is_able(turn, found->second) ? found->second : usual_next(turn);
  }

 private:
  using Place = std::tuple<int, std::uint64_t, std::uint64_t>;
  std::map<Place, int> next_;
};

}  // namespace

int usual_next(const Turn& turn) {
  const auto from = std::ranges::lower_bound(turn.able, turn.current);
  return from == turn.able.end() ? turn.able.front() : *from;
}

int next_after(const Turn& turn) {
  const auto after = std::ranges::upper_bound(turn.able, turn.current);
  return after == turn.able.end() ? turn.able.front() : *after;
}

std::unique_ptr<Strategy> make_strategy(const SimulationOptions& options) {
  if (options.replay) return std::make_unique<ReplayStrategy>(*options.replay);
  switch (options.policy) {
    case SchedulePolicy::random:
      return std::make_unique<RandomStrategy>(options.seed);
    case SchedulePolicy::round_robin:
      return std::make_unique<RoundRobinStrategy>();
    case SchedulePolicy::priorities:
      return std::make_unique<PriorityStrategy>(options.seed, options.priority_changes);
  }
  return nullptr;
}

}  // namespace hymn::sim
