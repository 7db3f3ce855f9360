// How the ranks of a world find out about each other when it is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/planner/tuning_table.hpp"
#include "runtime/group/world_context.hpp"
#include "runtime/rank/arrival.hpp"
#include "runtime/world/job_map.hpp"

namespace hymn::detail {

/// What a rank keeps of it when all have met.
struct WorldMet {
  JobMap job{};
  std::shared_ptr<const TuningTable> tuning{};  ///< null: nothing was measured on such machines
  CpuSet helper_cpus{};                         ///< on which hymn's own threads are to run
  bool has_peers_here = false;                  ///< other ranks are threads of this process
};

/// Of one world; held once.
class WorldMeeting {
 public:
  WorldMeeting(WorldContext& world, Exchange& exchange) : world_(world), exchange_(exchange) {}

  /// Collective over the exchange: each rank tells the others where it is, and with what settings;
  /// then all learn what their hosts are like. `secret`: what rank 0 tells all.
  WorldMet hold(const std::string& secret);

  // What else has been said, for those who go on making the world.
  const std::vector<Arrival>& arrivals() const { return arrivals_; }  ///< by rank
  const std::string& secret() const { return secret_; }               ///< what rank 0 has drawn

 private:
  struct TuningFile {
    std::string path;
    std::string text;     ///< empty: there is none
    std::string library;  ///< of rank 0: others may run another patch level of MPI
  };
  Bytes own_words(const TuningFile& file, const std::string& secret) const;
  /// What rank 0 has said of tuning.
  TuningFile read(std::span<const Bytes> words);
  void imagine_others(const FakeJob& fake);
  void check_settings(int rank, Unpacker& unpacker) const;
  TuningFile find_tuning(const MachineReader& read) const;
  void use_tuning(const TuningFile& file);
  void warn_of_tuning(const std::string& problem) const;
  void get_to_know();
  void bind_caller() const;
  CpuSet helper_cpus() const;

  WorldContext& world_;
  Exchange& exchange_;
  WorldMet met_;
  std::vector<Arrival> arrivals_;
  std::string secret_;
};

}  // namespace hymn::detail
