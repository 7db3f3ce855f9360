// Where a Machine comes from.
#pragma once

#include <string>
#include <string_view>

#include "base/private.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// This host, with GPUs and memory limits. `HYMN_TOPOLOGY_FILE` is the caller's business. Takes
/// milliseconds; thread-safe. What cannot be read is told by `remarks`.
HYMN_PRIVATE Machine read_this_machine();

/// An XML file of hwloc, format 2.x; format 3 and anything unreadable, malformed or too large
/// (64 MiB) throws ConfigError that names the file, what is wrong and the remedy.
Machine read_xml_file(const std::string& path);
/// The same from memory; `source` is what errors call it.
Machine read_xml(std::string_view xml, const std::string& source);

/// hwloc's synthetic description: "pack:2 numa:1 l3:1 core:8 pu:2". Throws ConfigError.
HYMN_PRIVATE Machine read_synthetic(const std::string& description);

/// Our own JSON (docs/topology.md tells the format); reads what to_json wrote, and checks it.
/// Throws ConfigError that names `source`, the place in the text, and what was expected there.
HYMN_PRIVATE Machine machine_from_json(std::string_view json, const std::string& source);
HYMN_PRIVATE std::string to_json(const Machine& machine);

/// XML or JSON, told by the first character of the file.
HYMN_PRIVATE Machine read_machine_file(const std::string& path);

/// /proc, /sys and /dev/shm below `root` (tests give another one than "").
HYMN_PRIVATE MemoryLimits read_memory_limits(const std::string& root = "");

}  // namespace hymn
