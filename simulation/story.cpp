#include <fmt/format.h>

#include "hymn/simulation.hpp"
#include "simulation/faults.hpp"
#include "simulation/simulated_time.hpp"

namespace hymn {

std::string SimulationResult::story() const {
  std::string told;
  for (const std::string& line : lines) told += line + "\n";
  told += fmt::format("{} after {:.3f} ms of virtual time and {} steps\n",
                      ok() ? "all ranks returned" : "failed", sim::milliseconds(time), steps);
  if (!ok()) told += text + "\n";
  for (const Fault& fault : faults) told += fmt::format("fault: {}\n", sim::describe(fault));
  told += fmt::format("seed {}, {} change{} of the schedule", seed, changes.size(),
                      changes.size() == 1 ? "" : "s");
  if (changes.size() <= 20) {
    told += "; replay = {";
    for (const ScheduleChange& change : changes)
      told +=
          fmt::format("{{{}, {}, {}, {}}}", change.thread, change.point, change.waits, change.next);
    told += "}";
  }
  told += "\n";
  return told;
}

}  // namespace hymn
