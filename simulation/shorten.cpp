// From a simulation that fails to the least that makes it fail.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include "hymn/simulation.hpp"
#include "hymn/threads.hpp"
#include "simulation/run.hpp"

namespace hymn {
namespace sim {
namespace {

using Kinds = std::set<std::string>;

/// What two failures that are alike have in common: the kinds of errors. That a group was given up
/// is the other side of another rank's error, which may come to the one or to the other.
Kinds kinds_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RanksFailed& failed) {
    Kinds kinds;
    for (const RankFailure& failure : failed.failures()) kinds.merge(kinds_of(failure.error));
    if (kinds.size() > 1) kinds.erase(std::string(to_string(ErrorKind::aborted)));
    return kinds;
  } catch (const SimulationStuck&) {
    return {"stuck"};
  } catch (const Error& known) {
    return {std::string(to_string(known.kind()))};
  } catch (const std::exception& other) {
    return {typeid(other).name()};
  } catch (...) {
    return {"?"};
  }
}

class Shortening {
 public:
  Shortening(const SimulationOptions& options, const SimulationResult& failed,
             const std::function<void(World&)>& rank_main, std::size_t tries)
      : options_(checked(options)),
        rank_main_(rank_main),
        kinds_(kinds_of(failed.error)),
        tries_(tries) {
    options_.seed = failed.seed;
    options_.random_faults = {};
    options_.faults = failed.faults;
    options_.replay = failed.changes;
    options_.story = false;
  }

  SimulationResult least() {
    // That schedule, with nothing left out, is the least that is known to fail; unless something
    // is not repeated.
    bool is_shorter = fails_alike();
    while (is_shorter && tries_ > 0) {
      is_shorter = leave_out(options_.faults);
      is_shorter = leave_out(*options_.replay) || is_shorter;
    }
    if (options_.replay->size() > 1 && tries_ > 0) look_for_single();
    options_.story = true;
    return simulate(options_, rank_main_);
  }

 private:
  bool fails_alike() {
    --tries_;
    const SimulationResult tried = simulate(options_, rank_main_);
    if (tried.ok()) return false;
    const Kinds kinds = kinds_of(tried.error);
    // Each of those leaves its threads behind.
    if (kinds.contains("stuck") && --stuck_left_ == 0) tries_ = 0;
    return kinds == kinds_;
  }

  /// Of changes some only move the places of others. One alone may do: most likely one between two
  /// threads between which there is one now, the later the better.
  void look_for_single() {
    const std::vector<ScheduleChange> shortest = *options_.replay;
    const auto is_likely = [&](const ScheduleChange& one) {
      return std::ranges::any_of(shortest, [&](const ScheduleChange& kept) {
        return kept.thread == one.thread && kept.next == one.next;
      });
    };
    std::vector<ScheduleChange> possible;
    options_.replay->clear();
    (void)run(options_, rank_main_, &possible).ok();
    for (const bool likely : {true, false})
      for (auto one = possible.rbegin(); one != possible.rend() && tries_ > 0; ++one) {
        if (is_likely(*one) != likely) continue;
        options_.replay = {*one};
        if (fails_alike()) return;
      }
    options_.replay = shortest;
  }

  /// As delta debugging does (Zeller and Hildebrandt, 2002): larger parts first. `list` is part of
  /// the options. True: it has become shorter.
  template <class T>
  bool leave_out(std::vector<T>& list) {
    const std::size_t before = list.size();
    for (std::size_t part = std::max<std::size_t>(1, list.size() / 2); !list.empty();) {
      bool was_left_out = false;
      for (std::size_t first = 0; first < list.size() && tries_ > 0;) {
        const std::vector<T> whole = list;
        const std::size_t length = std::min(part, list.size() - first);
        const auto begin = list.begin() + static_cast<std::ptrdiff_t>(first);
        list.erase(begin, begin + static_cast<std::ptrdiff_t>(length));
        if (fails_alike()) {
          was_left_out = true;
        } else {
          list = whole;
          first += length;
        }
      }
      if (tries_ == 0 || (part == 1 && !was_left_out)) break;
      part = std::max<std::size_t>(1, std::min(part / 2, list.size() / 2));
    }
    return list.size() < before;
  }

  SimulationOptions options_;
  const std::function<void(World&)>& rank_main_;
  Kinds kinds_;
  std::size_t tries_;
  int stuck_left_ = 50;
};

}  // namespace
}  // namespace sim

std::optional<SimulationResult> explore(const SimulationOptions& options, std::uint64_t seeds,
                                        const std::function<void(World&)>& rank_main) {
  SimulationOptions one = options;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    one.seed = options.seed + i;
    if (SimulationResult result = simulate(one, rank_main); !result.ok()) return result;
  }
  return std::nullopt;
}

SimulationResult shorten(const SimulationOptions& options, const SimulationResult& failed,
                         const std::function<void(World&)>& rank_main, std::size_t tries) {
  if (failed.ok())
    throw UsageError("this simulation has not failed",
                     {.remedy = "shorten what explore() returns"});
  return sim::Shortening(options, failed, rank_main, tries).least();
}

}  // namespace hymn
