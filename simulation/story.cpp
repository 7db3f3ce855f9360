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
  told += fmt::format("seed {}, {} changes of the schedule\n", seed, changes.size());
  return told;
}

}  // namespace hymn
