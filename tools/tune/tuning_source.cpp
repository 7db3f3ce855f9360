#include "tools/tune/tuning_source.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "collectives/planner/peer_use.hpp"
#include "hymn/error.hpp"
#include "runtime/world/tuning_library.hpp"
#include "tools/bad_arguments.hpp"
#include "topology/read_machine.hpp"

namespace hymn {

TuningSource tuning_source(const Config& config, const Machine& machine) {
  TuningSource source;
  source.machine = fingerprint(machine);
  if (config.tuning == "off") return source;
  source.file = config.tuning.empty() ? tuning_file_for(source.machine) : config.tuning;
  if (source.file.empty()) return source;
  try {
    const auto text = read_tuning_text(source.file);
    if (!text && !config.tuning.empty())
      source.choice.problem = fmt::format("tuning table {} is not there", source.file);
    else
      source.choice = choose_tuning(text, source.file, {source.machine}, tuning_library());
  } catch (const ConfigError& error) {
    source.choice.problem = error.problem();
  }
  return source;
}

Machine machine_in_effect(const Config& config) {
  return config.topology_file.empty() ? read_this_machine()
                                      : read_machine_file(config.topology_file);
}

MachineSource machine_named(const std::string& topo, const std::string& synthetic,
                            const Config& config) {
  if (!topo.empty() && !synthetic.empty())
    throw BadArguments("--topo and --synthetic both describe the machine; give one of them");
  if (!topo.empty()) return machine_from_file(topo);
  if (!synthetic.empty()) return machine_from_synthetic(synthetic);
  return {std::make_shared<const Machine>(machine_in_effect(config)), 1};
}

void declare_machine(CLI::App& app, std::string& topo, std::string& synthetic) {
  app.add_option("--topo", topo,
                 "a machine: XML of hwloc or JSON of `hymn topo`; FILE:4 for four such hosts");
  app.add_option("--synthetic", synthetic, "a machine as hwloc describes it in one line");
}

PlanContext plan_context(const Config& config, const MachineSource& source,
                         const TuningSource& tuning) {
  PlanContext context;
  context.machines = {source.machine};
  context.tuning = tuning.choice.table;
  context.peers = peer_use(config.path, config.p2p_compat);
  context.nccl_in_float32 = config.nccl.reduce_in_float32.value_or(false);
  return context;
}

std::string in_words(const TuningSource& source) {
  if (source.choice.table != nullptr) {
    const TuningTable& table = *source.choice.table;
    return fmt::format("{}, measured on {}, {} rows", source.file, table.measured,
                       table.rows.size());
  }
  if (!source.choice.problem.empty()) return "none: " + source.choice.problem;
  if (source.file.empty()) return "none: switched off, or no home folder";
  return fmt::format("none: there is no {}; `hymn tune` makes one", source.file);
}

}  // namespace hymn
