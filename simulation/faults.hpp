// Which faults a simulation has, and how they come about.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hymn/simulation.hpp"

namespace hymn::sim {

class Scheduler;

/// Those that were asked for, and those that the seed draws.
std::vector<Fault> all_faults(const SimulationOptions& options);

/// In words: "rank 2 dies at step 100".
std::string describe(const Fault& fault);

/// Throws UsageError for ranks and hosts that there are not.
void check_faults(const SimulationOptions& options);

/// A simulated thread for each fault of a rank, which waits until it is time.
class FaultThreads {
 public:
  using SightDeath = std::function<void(int rank, const std::string& how)>;
  FaultThreads(Scheduler& scheduler, const std::vector<Fault>& faults, Duration death_notice)
      : scheduler_(scheduler), faults_(faults), death_notice_(death_notice) {}
  /// On a simulated thread.
  void start(SightDeath sight_death);
  void join();

 private:
  void happen(const Fault& fault);

  Scheduler& scheduler_;
  const std::vector<Fault>& faults_;
  Duration death_notice_;
  SightDeath sight_death_;
  std::vector<std::thread> threads_;
};

}  // namespace hymn::sim
