// Machines that this process knows: looking at one takes milliseconds, a world should not.
#pragma once

#include <memory>
#include <string>

#include "topology/machine.hpp"

namespace hymn {

/// A machine in the forms in which worlds need it.
struct KnownMachine {
  std::shared_ptr<const Machine> machine;
  std::string fingerprint;
  std::string json;

  static std::shared_ptr<const KnownMachine> of(std::shared_ptr<const Machine> machine);
};

/// This host, or what `topology_file` describes; looked at once in a process. Throws ConfigError
/// for a file that cannot be used. Thread-safe.
std::shared_ptr<const KnownMachine> known_machine(const std::string& topology_file);

/// The machine that another rank has sent as JSON. Thread-safe.
std::shared_ptr<const Machine> machine_from_peer(const std::string& json);

}  // namespace hymn
