// What a rank says of itself to all others when its world is made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/config.hpp"
#include "base/meeting.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// Where a rank pretends to be: tests put ranks that are threads on hosts that are not there.
struct PretendedSite {
  std::string host;
  std::shared_ptr<const Machine> machine;  ///< null: looked at as ever
  CpuSet cpus;
  std::string visible_gpus{};  ///< as visible_gpus()
};

/// What one rank says of itself to all others.
struct Arrival {
  std::string host_key;  ///< equal exactly for ranks that share a host
  std::string host_name;
  std::uint64_t process = 0;        ///< equal exactly for ranks of one process
  int pid = 0;                      ///< of its process, as seen there
  std::uint64_t pid_namespace = 0;  ///< as own_namespace("pid")
  std::string topology_file;
  std::string gpu;           ///< as HYMN_GPU
  std::string visible_gpus;  ///< as visible_gpus()
  BindTo bind = BindTo::none;
  CpuSet cpus;  ///< that it may use now

  static Arrival of_this_rank(const Config& config, const std::optional<PretendedSite>& site,
                              int rank);
  void pack(Packer& packer) const;
  static Arrival unpack(Unpacker& unpacker);
};

}  // namespace hymn
