#include "tools/doctor/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "base/config.hpp"
#include "hymn/error.hpp"
#include "hymn/settings.hpp"
#include "runtime/mechanisms/mpi_session.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/doctor/job.hpp"
#include "tools/doctor/judge.hpp"
#include "tools/doctor/launcher.hpp"
#include "tools/doctor/report.hpp"
#include "tools/size_option.hpp"
#include "topology/host.hpp"

namespace hymn {
namespace {

// Far beyond any memory; keeps sums over the ranks from wrapping around.
constexpr std::uint64_t largest_segment = std::uint64_t{1} << 52;

int report(const DoctorArguments& arguments, const DoctorScope& scope, const FindingList& findings,
           bool aloud) {
  if (aloud)
    fmt::print("{}", arguments.json ? report_json(scope, findings)
                                    : report_text(scope, findings, arguments.verbose));
  return exit_code(findings.worst());
}

LauncherFacts this_launcher() {
  std::string library;
  for (const BuildFact& fact : build_facts())
    if (fact.name == "MPI library") library = fact.value;
  return read_launcher(environment_of_this_process(), library);
}

// A malformed variable is a finding, not the end.
ThreadLevel wanted_level() {
  try {
    const Config config = Config::from_environment();
    return config.wanted_thread_level(config.progress_thread);
  } catch (const ConfigError&) {
    return ThreadLevel::single;
  }
}

}  // namespace

void declare_doctor_arguments(CLI::App& app, DoctorArguments& arguments) {
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_flag("--verbose,-v", arguments.verbose, "also what is in order");
  add_size(app, "--memory", arguments.segment_bytes,
           "what each rank should be able to have for segments; K, M and G are powers of 1024")
      ->default_str("64M");
  app.add_flag("--start-mpi", arguments.start_mpi,
               "start MPI although it does not seem to fit the launcher");
}

int doctor_command(const DoctorArguments& arguments) {
  if (arguments.segment_bytes > largest_segment)
    throw BadArguments(fmt::format("--memory {}: at most 4P", arguments.segment_bytes));
  // A file above RLIMIT_FSIZE would end the process, in MPI_Init already.
  std::signal(SIGXFSZ, SIG_IGN);
  const LauncherFacts launcher = this_launcher();
  DoctorScope scope{launcher.tasks, {host_name()}, describe(launcher), launcher.library};
  FindingList findings;
  // Tasks that do not find each other can still agree on who speaks.
  const bool first_task = launcher.rank == 0;
  if (!arguments.start_mpi) judge_launcher(launcher, findings);
  if (findings.worst() == Severity::error) return report(arguments, scope, findings, first_task);

  ThreadLevel granted = ThreadLevel::single;
  try {
    granted = open_mpi(wanted_level())->level();
  } catch (const Error& error) {
    findings.add("mpi.not-started", error.what());
    return report(arguments, scope, findings, first_task);
  }
  DoctorJob job;
  judge_world_size(launcher, job.size(), findings);
  if (findings.worst() == Severity::error) return report(arguments, scope, findings, first_task);

  const JobFacts facts = job.gather(granted, arguments.segment_bytes);
  int code = 0;
  if (job.rank() == 0) {
    judge(facts, findings);
    scope.ranks = job.size();
    scope.hosts.clear();
    for (const HostFacts& host : facts.hosts) scope.hosts.push_back(host.name);
    code = report(arguments, scope, findings, true);
  }
  return job.share(code);
}

}  // namespace hymn
