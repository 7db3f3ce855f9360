// A job that plays random programs, from its seed: what runs it, with how many ranks, over which
// paths, with which settings. The test that starts jobs and the programs both make it of the seed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/random/player.hpp"

namespace hymn::test {

struct RandomJob {
  enum class Kind : std::uint8_t { threads, hosts, run, mpi };

  std::uint64_t seed = 0;
  Kind kind = Kind::mpi;
  int ranks = 1;
  std::string layout{};  ///< of hosts, see tests/support/hosts.hpp
  int acts = 1;          ///< each has a new world
  std::size_t worlds = 1;
  std::vector<std::pair<std::string, std::string>> settings{};  ///< environment variables
  PlayerRules rules{};

  static RandomJob draw(std::uint64_t seed);
  /// The line for a shell that runs it; `steps`: these alone, if any are given.
  std::string command(const std::string& steps = {}) const;
  std::string describe() const;
  /// The numbers of all its steps.
  std::vector<int> all_steps() const;
};

/// main() of the programs: PROGRAM SEED [STEPS], where STEPS is a list as "3,1000-1017". `kinds`
/// are those of the jobs that it plays; `run_act` makes worlds and gives them to what it is given.
using ActMain = std::function<void(std::span<World* const>)>;
using RunAct = std::function<void(const RandomJob&, const ActMain&)>;
int run_random_job(int argc, char** argv, std::initializer_list<RandomJob::Kind> kinds,
                   const RunAct& run_act);

}  // namespace hymn::test
