#include "simulation/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "simulation/scheduler.hpp"
#include "simulation/simulated_time.hpp"

namespace hymn::sim {
namespace {

/// Draws what goes wrong, by numbers of its own: the schedule of a seed is the same with and
/// without.
class FaultSource {
 public:
  explicit FaultSource(const SimulationOptions& options)
      : options_(options), random_(options.seed ^ 0x9e3779b97f4a7c15) {}

  std::vector<Fault> draw() {
    const RandomFaults& wanted = options_.random_faults;
    std::vector<int> ranks(static_cast<std::size_t>(options_.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int i = 0; i < wanted.deaths && !ranks.empty(); ++i) {
      const auto victim = ranks.begin() + static_cast<std::ptrdiff_t>(below(ranks.size()));
      drawn_.push_back(Fault::death_at_step(*victim, 1 + below(wanted.within_steps)));
      ranks.erase(victim);
    }
    for (int i = 0; i < wanted.stalls; ++i)
      drawn_.push_back(Fault::stall(rank(), time(wanted.within), time(wanted.longest)));
    const std::set<int> different(options_.hosts.begin(), options_.hosts.end());
    const std::vector<int> hosts(different.begin(), different.end());
    for (int i = 0; i < wanted.cuts && hosts.size() > 1; ++i) {
      const std::uint64_t host = below(hosts.size());
      const std::uint64_t other = (host + 1 + below(hosts.size() - 1)) % hosts.size();
      drawn_.push_back(
          Fault::cut(hosts[host], hosts[other], time(wanted.within), time(wanted.longest)));
    }
    for (int i = 0; i < wanted.late && options_.ranks > 1; ++i) {
      const int sender = rank();
      const int receiver =
          (sender + 1 + static_cast<int>(below(static_cast<std::uint64_t>(options_.ranks - 1)))) %
          options_.ranks;
      drawn_.push_back(Fault::late(sender, receiver, below(8), time(wanted.longest)));
    }
    return drawn_;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  int rank() { return static_cast<int>(below(static_cast<std::uint64_t>(options_.ranks))); }
  Duration time(Duration most) {
    return Duration(below(static_cast<std::uint64_t>(most.count()) + 1));
  }

  const SimulationOptions& options_;
  std::mt19937_64 random_;
  std::vector<Fault> drawn_;
};

bool is_of_rank(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::death:
    case Fault::Kind::stall:
    case Fault::Kind::slow:
      return true;
    case Fault::Kind::cut:
    case Fault::Kind::late:
      return false;
  }
  return false;
}

void check(const Fault& fault, const SimulationOptions& options) {
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < options.ranks; };
  const auto is_host = [&](int host) {
    return std::ranges::find(options.hosts, host) != options.hosts.end();
  };
  const bool is_right = is_of_rank(fault) ? is_rank(fault.from)
                        : fault.kind == Fault::Kind::cut
                            ? is_host(fault.from) && is_host(fault.to) && fault.from != fault.to
                            : is_rank(fault.from) && is_rank(fault.to);
  if (fault.at < Duration(0) || fault.by < Duration(0) || fault.at > longest_time)
    throw UsageError(fmt::format("the fault \"{}\" has a time that cannot be", describe(fault)),
                     {.remedy = "give times from 0 to some years, or Fault::for_ever as `by`"});
  if (!is_right)
    throw UsageError(
        fmt::format("the fault \"{}\" is of ranks or hosts that there are not", describe(fault)),
        {.remedy = "number ranks from 0, and hosts as SimulationOptions::hosts does"});
}

}  // namespace

std::string describe(const Fault& fault) {
  const std::string when = fault.step != 0 ? fmt::format("at step {}", fault.step)
                                           : fmt::format("at {:.3f} ms", milliseconds(fault.at));
  const std::string how_long = fault.by == Fault::for_ever
                                   ? "for ever"
                                   : fmt::format("for {:.3f} ms", milliseconds(fault.by));
  switch (fault.kind) {
    case Fault::Kind::death:
      return fmt::format("rank {} dies {}", fault.from, when);
    case Fault::Kind::stall:
      return fmt::format("rank {} stops {} {}", fault.from, when, how_long);
    case Fault::Kind::slow:
      return fmt::format("each step of rank {} takes {:.3f} ms more", fault.from,
                         milliseconds(fault.by));
    case Fault::Kind::cut:
      return fmt::format("hosts {} and {} are cut off from each other {} {}", fault.from, fault.to,
                         when, how_long);
    case Fault::Kind::late:
      return fmt::format("message {} from rank {} to rank {} comes {:.3f} ms late", fault.message,
                         fault.from, fault.to, milliseconds(fault.by));
  }
  return {};
}

std::vector<Fault> all_faults(const SimulationOptions& options) {
  std::vector<Fault> all = options.faults;
  const std::vector<Fault> drawn = FaultSource(options).draw();
  all.insert(all.end(), drawn.begin(), drawn.end());
  return all;
}

void check_faults(const SimulationOptions& options) {
  for (const Fault& fault : options.faults) check(fault, options);
}

void FaultThreads::start(SightDeath sight_death) {
  sight_death_ = std::move(sight_death);
  for (const Fault& fault : faults_)
    if (is_of_rank(fault)) threads_.emplace_back([this, &fault] { happen(fault); });
}

void FaultThreads::join() {
  for (std::thread& thread : threads_) thread.join();
}

void FaultThreads::happen(const Fault& fault) {
  scheduler_.sleep_until_fault(fault.at, fault.step);
  if (scheduler_.are_ranks_done()) return;
  scheduler_.tell(describe(fault));
  const TimePoint now = scheduler_.now();
  switch (fault.kind) {
    case Fault::Kind::death:
      if (!scheduler_.kill(fault.from)) return;
      scheduler_.sleep_until(now + death_notice_);
      sight_death_(fault.from, "its process has ended");
      return;
    case Fault::Kind::stall:
      return scheduler_.stall(fault.from, fault.by > longest_time ? never : now + fault.by);
    case Fault::Kind::slow:
      return scheduler_.slow_down(fault.from, std::min(fault.by, longest_time));
    case Fault::Kind::cut:
    case Fault::Kind::late:
      return;  // of the network
  }
}

}  // namespace hymn::sim
