// Which table of measured costs a run on this kind of machine would use, and why not.
#pragma once

#include <string>

#include "base/config.hpp"
#include "collectives/plan_context.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "tools/machine_source.hpp"
#include "topology/machine.hpp"

namespace CLI {
class App;
}

namespace hymn {

struct TuningSource {
  std::string machine;  ///< fingerprint
  std::string file;     ///< empty: none is looked for
  TuningChoice choice;
};

/// As a world on such machines would choose; never throws for what is in the file.
TuningSource tuning_source(const Config& config, const Machine& machine);

/// The machine that a world here would see: HYMN_TOPOLOGY_FILE, or this host.
Machine machine_in_effect(const Config& config);
/// What --topo or --synthetic names, or else that one. BadArguments for both.
MachineSource machine_named(const std::string& topo, const std::string& synthetic,
                            const Config& config);
void declare_machine(CLI::App& app, std::string& topo, std::string& synthetic);

/// What plans on such machines depend on, but for where the ranks are.
PlanContext plan_context(const Config& config, const MachineSource& source,
                         const TuningSource& tuning);

/// "FILE, measured on …", or "none: …" with the reason.
std::string in_words(const TuningSource& source);

}  // namespace hymn
