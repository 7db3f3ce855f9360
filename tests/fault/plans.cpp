#include "tests/fault/plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

namespace hymn::test {
namespace {

JobPlan job_on(std::vector<int> hosts, bool slurm = false) {
  return {.program = {}, .hosts = std::move(hosts), .slurm = slurm};
}

/// Named after its scenes, for which gtest takes letters, digits and _ only.
FaultPlan plan(JobPlan job, std::vector<Scene> scenes) {
  FaultPlan made{.name = {}, .job = std::move(job), .scenes = std::move(scenes)};
  for (const Scene& scene : made.scenes)
    made.name += (made.name.empty() ? "" : "_then_") + scene.word();
  for (const int ranks : made.job.hosts) made.name += fmt::format("_{}", ranks);
  std::replace(made.name.begin(), made.name.end(), ':', '_');
  return made;
}

/// The ranks meet before each call, and rank 0, which tells where they all are, is stopped.
FaultPlan checked_plan() {
  FaultPlan made = plan(job_on({3}), {{"stop", "blocked", "shm", 0}});
  made.name = "detail_" + made.name;
  made.setting = "HYMN_CHECKS=detail";
  return made;
}

bool has_messages(std::string_view path) { return path == "shm" || path == "mpi_p2p"; }

/// A state that the path has.
std::string state_for(const std::string& path, std::size_t number) {
  const auto& states = all_states();
  const std::string& state = states[number % states.size()];
  return state == "messages" && !has_messages(path) ? "blocked" : state;
}

/// Two failures, one after the other, of `death` and of the one behind it, by `path`.
FaultPlan pair_of(const JobPlan& job, std::size_t death, const std::string& path,
                  std::size_t number) {
  const auto& deaths = all_deaths();
  const int ranks = job.ranks();
  const int first = static_cast<int>(number) % ranks;
  const int second = (first + 1 + static_cast<int>(number / 2) % (ranks - 1)) % ranks;
  return plan(job, {{deaths[death], state_for(path, number), path, first},
                    {deaths[death + 1], state_for(path, number + 1), path, second}});
}

/// torch.distributed's tests of these names: rank 1 of three fails while the others wait.
std::vector<FaultPlan> plans_of_torch() {
  constexpr std::pair<const char*, const char*> deaths[] = {
      {"test_nccl_errors_blocking_clean_exit", "exit0"},
      {"test_nccl_errors_blocking_nonzero_exit", "exit1"},
      {"test_nccl_errors_blocking_abort", "abort"},
      {"test_nccl_errors_blocking_sigkill", "kill"},
      {"test_nccl_errors_blocking_sigterm", "term"},
      {"test_nccl_errors_blocking_other_cases", "never"}};
  std::vector<FaultPlan> plans;
  for (const auto& [name, death] : deaths) {
    plans.push_back(plan(job_on({3}), {{death, "asynchronous", "shm", 1}}));
    plans.back().name = name;
  }
  return plans;
}

const std::vector<std::string> local_paths = {"shm", "mpi", "mpi_p2p"};

}  // namespace

std::vector<int> FaultPlan::survivors(std::size_t scene) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < job.ranks(); ++rank) ranks.push_back(rank);
  for (std::size_t i = 0; i <= scene; ++i) std::erase(ranks, scenes[i].victim);
  return ranks;
}

void PrintTo(const FaultPlan& plan, std::ostream* out) { *out << plan.name; }

std::vector<FaultPlan> local_plans() {
  std::vector<FaultPlan> plans = plans_of_torch();
  std::size_t number = 0;
  for (const std::string& path : local_paths)
    for (std::size_t death = 0; death < all_deaths().size(); death += 2) {
      // Those who stay take their time; what others hear of them does not depend on this path.
      if (path == "mpi_p2p" && all_deaths()[death] == "stop") continue;
      plans.push_back(pair_of(job_on({4}), death, path, number++));
    }
  // Groups that the victim is no member of.
  plans.push_back(plan(job_on({3}), {{"kill", "blocked", "shm", 0, false}}));
  plans.push_back(plan(job_on({3}), {{"exit1", "asynchronous", "mpi", 1, false}}));
  plans.push_back(plan(job_on({4}), {{"abort", "messages", "shm", 0, false},
                                     {"goodbye", "idle", "mpi_p2p", 3, false}}));
  plans.push_back(plan(job_on({4}), {{"stop", "asynchronous", "shm", 0, false},
                                     {"never", "blocked", "mpi", 2, false}}));
  plans.push_back(checked_plan());
  // More ranks that run the coordinator than must be there at the beginning.
  plans.push_back(plan(job_on({6}), {{"kill", "blocked", "shm", 0},
                                     {"kill", "asynchronous", "mpi", 1},
                                     {"kill", "blocked", "mpi_p2p", 2},
                                     {"exit0", "idle", "shm", 3}}));
  return plans;
}

std::vector<FaultPlan> hosts_plans() {
  std::vector<FaultPlan> plans;
  std::size_t number = 0;
  for (std::size_t death = 0; death < all_deaths().size(); death += 2)
    plans.push_back(pair_of(job_on({2, 2}), death, "hierarchical", number++));
  // The rank that runs the coordinator, then its deputy on the other host.
  plans.push_back(plan(job_on({2, 2}), {{"kill", "asynchronous", "hierarchical", 0},
                                        {"kill", "blocked", "mpi", 2}}));
  // While it is stopped, nobody on the other host can be asked.
  plans.push_back(plan(job_on({2, 2}), {{"stop", "blocked", "hierarchical", 0}}));
  plans.push_back(plan(job_on({2, 1}), {{"kill", "messages", "mpi_p2p", 2}}));
  plans.push_back(plan(job_on({2, 2}), {{"term", "blocked", "hierarchical", 1, false},
                                        {"exit0", "idle", "mpi_p2p", 2, false}}));
  return plans;
}

std::vector<FaultPlan> slurm_plans() {
  return {plan(job_on({3}, true), {{"kill", "blocked", "shm", 0}}),
          plan(job_on({4}, true),
               {{"exit1", "asynchronous", "mpi", 2}, {"abort", "messages", "mpi_p2p", 0}})};
}

std::vector<FaultPlan> every_plan() {
  std::vector<FaultPlan> plans;
  std::size_t number = 0;
  for (const char* path : {"shm", "mpi", "mpi_p2p", "hierarchical"})
    for (const std::string& death : all_deaths())
      for (const std::string& state : all_states())
        for (const bool member : {true, false}) {
          if (state == "messages" && !has_messages(path)) continue;
          const bool across = std::string_view(path) == "hierarchical";
          const bool many = number % 2 == 0;
          JobPlan job = job_on({many ? 4 : 3});
          // The group of the scene needs two hosts, and two ranks on one of them.
          if (across) job = job_on(many || !member ? std::vector{2, 2} : std::vector{2, 1});
          const int victim = static_cast<int>(number / 2) % job.ranks();
          plans.push_back(plan(job, {{death, state, path, victim, member}}));
          ++number;
        }
  return plans;
}

}  // namespace hymn::test
