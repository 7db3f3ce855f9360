#include "tests/fault/job_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

const std::string source = HYMN_SOURCE;

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string make_folder() {
  std::string name = std::filesystem::temp_directory_path() / "fault-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return name;
}

/// "node0:2,node1:1"
std::string places(const JobPlan& plan) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i)
    words.push_back(fmt::format("node{}:{}", i, plan.hosts[i]));
  return fmt::format("{}", fmt::join(words, ","));
}

std::string names(const JobPlan& plan) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) words.push_back(fmt::format("node{}", i));
  return fmt::format("{}", fmt::join(words, " "));
}

bool has_hosts(const JobPlan& plan) { return plan.hosts.size() > 1; }

/// What runs on the first host, in the allocation, or here.
std::string inner_line(const JobPlan& plan, const std::string& folder) {
  if (!plan.mpi)
    return fmt::format(
        "env LAUNCHER={0}/tests/launchers/start_ranks.sh sh {0}/tests/fault/job.sh "
        "{1} {2} {3} {4} {5} {6}",
        source, plan.limit_s, file_name(plan.program), places(plan), plan.program, folder,
        fmt::join(plan.words, " "));
  const std::string where =
      has_hosts(plan) ? fmt::format("--host {} -x HYMN_TUNING=off ", places(plan)) : "";
  return fmt::format("sh {}/tests/fault/job.sh {} {} {}{}-n {} {} {} {}", source, plan.limit_s,
                     file_name(plan.program), plan.recovery ? "--enable-recovery " : "", where,
                     plan.ranks(), plan.program, folder, fmt::join(plan.words, " "));
}

JobRun run_line(const std::string& line) {
  const ShellOutcome outcome = run_shell(line + " 2>&1");
  JobRun run{.output = outcome.output, .skipped = {}, .left = {}};
  std::istringstream lines(outcome.output);
  for (std::string text; std::getline(lines, text);) {
    if (text == "hung") run.hung = true;
    if (text.starts_with("left: ")) run.left.push_back(text.substr(6));
    if (outcome.exit_code == 77 && text.starts_with("skipped: ")) run.skipped = text;
  }
  return run;
}

}  // namespace

int JobPlan::ranks() const { return std::accumulate(hosts.begin(), hosts.end(), 0); }

int JobPlan::host_of(int rank) const {
  int host = 0;
  for (const int ranks : hosts) {
    if (rank < ranks) break;
    rank -= ranks;
    ++host;
  }
  return host;
}

NotesFolder::NotesFolder() : notes_(make_folder()) {}

NotesFolder::~NotesFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(notes_.folder(), ignored);
}

std::string hosts_script() { return source + "/tests/launchers/hosts.sh"; }

JobRun run_job(const JobPlan& plan, const NotesFolder& folder) {
  std::string line = inner_line(plan, folder.notes().folder());
  if (has_hosts(plan))
    line = fmt::format("HOSTS='{}' {} run {} {}", names(plan), hosts_script(), plan.hosts.size(),
                       line);
  if (plan.slurm)
    line = fmt::format("{}/tests/launchers/slurm.sh run salloc --quiet -n {} {}", source,
                       plan.ranks(), line);
  return run_line(line);
}

JobRun run_job_on(const std::string& hosts, const JobPlan& plan, const NotesFolder& folder) {
  return run_line(fmt::format("HOSTS='{}' {} exec {} node0 {}", names(plan), hosts_script(), hosts,
                              inner_line(plan, folder.notes().folder())));
}

std::string describe_times(std::vector<double> times) {
  if (times.empty()) return "none";
  std::sort(times.begin(), times.end());
  return fmt::format("{} of them, median {:.1f} ms, longest {:.1f} ms", times.size(),
                     times[times.size() / 2], times.back());
}

}  // namespace hymn::test
