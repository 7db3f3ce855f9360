// Reads machines that the command line names, and imagines jobs on them.
#include "tools/machine_source.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "tools/bad_arguments.hpp"
#include "topology/read_machine.hpp"

namespace hymn {

namespace {

std::shared_ptr<const Machine> read_shared(const std::string& path) {
  return std::make_shared<const Machine>(read_machine_file(path));
}

}  // namespace

MachineSource machine_from_file(const std::string& file_and_hosts) {
  const std::size_t colon = file_and_hosts.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || std::filesystem::exists(file_and_hosts, ignored))
    return {read_shared(file_and_hosts), 1};
  const char* begin = file_and_hosts.data() + colon + 1;
  const char* end = file_and_hosts.data() + file_and_hosts.size();
  int hosts = 0;
  const auto [rest, error] = std::from_chars(begin, end, hosts);
  if (error != std::errc() || rest != end || hosts < 1 || hosts > most_hosts)
    throw BadArguments(fmt::format("'{}': after the colon the number of hosts is expected, 1 to {}",
                                   file_and_hosts, most_hosts));
  return {read_shared(file_and_hosts.substr(0, colon)), hosts};
}

MachineSource machine_from_synthetic(const std::string& description) {
  return {std::make_shared<const Machine>(read_synthetic(description)), 1};
}

JobMap imagined_job(const MachineSource& source, int ranks_per_host) {
  JobMap job;
  job.machines.push_back(source.machine);
  job.places = place_on_host(*source.machine, spread_ranks(*source.machine, ranks_per_host));
  // All hosts are alike and hold as many ranks: one summary serves them all.
  const HostSummary summary = summarise(*source.machine, 0, job.places);
  job.world.size = source.hosts * ranks_per_host;
  for (int host = 0; host < source.hosts; ++host) {
    job.host_names.push_back(imagined_host_name(source, host));
    job.world.hosts.push_back(summary);
  }
  job.host_name = job.host_names.front();
  return job;
}

void require_imaginable(std::size_t ranks, int hosts) {
  if (ranks > static_cast<std::size_t>(hosts) * most_ranks_per_host)
    throw BadArguments(fmt::format("{} ranks on {} host(s): at most {} on each are imagined", ranks,
                                   hosts, most_ranks_per_host));
}

}  // namespace hymn
