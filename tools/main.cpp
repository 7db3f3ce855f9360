// The `hymn` command.
//
// Exit codes: 0, 1 when something went wrong or a result was wrong, 2 for bad arguments and
// settings; `hymn doctor` has more (docs/doctor.md), 1 of `hymn trace` says that it found a fault
// in the job, 1 of `hymn check` that programs do not match, and that of `hymn run` is that of the
// first rank that has failed.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "base/config.hpp"
#include "hymn/error.hpp"
#include "hymn/settings.hpp"
#include "tools/bench/command.hpp"
#include "tools/check/command.hpp"
#include "tools/doctor/command.hpp"
#include "tools/explain/command.hpp"
#include "tools/info_command.hpp"
#include "tools/launched.hpp"
#include "tools/predict/command.hpp"
#include "tools/preloaded.hpp"
#include "tools/run/command.hpp"
#include "tools/say.hpp"
#include "tools/topo/command.hpp"
#include "tools/trace/command.hpp"
#include "tools/tune/command.hpp"

namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_arguments = 2;

// Files that are opened later must not take the place of closed standard ones, or what is printed
// would go into them. These cannot be read, or written, as if still closed.
void keep_standard_files_apart() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(file, F_GETFD) < 0)
      static_cast<void>(::open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

bool environment_is_bad() {
  try {
    hymn::Config::from_environment();
    return false;
  } catch (const hymn::ConfigError&) {
    return true;
  }
}

int complain(const std::string& problem, int exit_code, bool aloud) {
  if (aloud)
    hymn::say(fmt::format("hymn: {}\n", problem));
  else
    hymn::let_the_first_rank_speak();
  return exit_code;
}

int run(int argc, char** argv) {
  CLI::App app("Looks at hymn's set-up and measures its collectives.", "hymn");
  app.set_version_flag("--version", std::string("hymn ") + hymn::version());
  app.require_subcommand(1);
  bool json = false;
  CLI::App* info = app.add_subcommand("info", "Show version, build and every HYMN_* variable");
  info->add_flag("--json", json, "as JSON");
  CLI::App* bench = app.add_subcommand(
      "bench", "Time a collective, under mpirun or alone; verify its results (docs/command.md)");
  hymn::BenchArguments arguments;
  hymn::declare_bench_arguments(*bench, arguments);
  CLI::App* topo = app.add_subcommand("topo", "Show the machines of the job and the ranks on them");
  hymn::TopoArguments topo_arguments;
  hymn::declare_topo_arguments(*topo, topo_arguments);
  CLI::App* tune = app.add_subcommand(
      "tune", "Measure every path here and keep the times for later runs (docs/tuning.md)");
  hymn::TuneArguments tune_arguments;
  hymn::declare_tune_arguments(*tune, tune_arguments);
  CLI::App* explain = app.add_subcommand(
      "explain", "Tell which path a collective takes, and why not another (docs/tuning.md)");
  hymn::ExplainArguments explain_arguments;
  hymn::declare_explain_arguments(*explain, explain_arguments);
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Look for what will go wrong in a job, under its launcher (docs/doctor.md)");
  hymn::DoctorArguments doctor_arguments;
  hymn::declare_doctor_arguments(*doctor, doctor_arguments);
  CLI::App* trace = app.add_subcommand(
      "trace", "Tell from the flight recorder's dumps what is wrong with a job (docs/trace.md)");
  hymn::TraceArguments trace_arguments;
  hymn::declare_trace_arguments(*trace, trace_arguments);
  CLI::App* check = app.add_subcommand(
      "check", "Tell whether captured programs of all ranks match (docs/functional.md)");
  hymn::CheckArguments check_arguments;
  hymn::declare_check_arguments(*check, check_arguments);
  CLI::App* predict = app.add_subcommand(
      "predict", "Tell how long a captured program should take elsewhere (docs/functional.md)");
  hymn::PredictArguments predict_arguments;
  hymn::declare_predict_arguments(*predict, predict_arguments);
  CLI::App* preload = app.add_subcommand(
      "preload", "Print where the library for unmodified MPI programs is (docs/preload.md)");
  CLI::App* start =
      app.add_subcommand("run",
                         "Start a program as the ranks of one world on this host, or mpirun with "
                         "libhymn-preload.so before its ranks (docs/worlds.md, docs/preload.md)");
  hymn::RunArguments run_arguments;
  hymn::declare_run_arguments(*start, run_arguments);
  try {
    std::vector<char*> words = hymn::without_separator(*start, argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    const bool is_failure = error.get_exit_code() != 0;
    if (hymn::speaks_for_all())
      app.exit(error);
    else if (is_failure)
      hymn::let_the_first_rank_speak();
    return is_failure ? exit_bad_arguments : 0;
  }
  if (*start) return hymn::run_command(run_arguments, start->remaining());
  if (*preload) return hymn::preload_command();
  if (*bench) return hymn::bench_command(arguments);
  if (*tune) return hymn::tune_command(tune_arguments);
  if (*topo) return hymn::topo_command(topo_arguments);
  if (*trace) return hymn::trace_command(trace_arguments);
  if (*check) return hymn::check_command(check_arguments);
  if (*doctor) return hymn::doctor_command(doctor_arguments);
  const std::string text = *explain   ? hymn::explain_text(explain_arguments)
                           : *predict ? hymn::predict_text(predict_arguments)
                                      : hymn::info_text(json);
  if (hymn::speaks_for_all()) fmt::print("{}", text);
  return 0;
}

// What was printed may still wait for its way out.
int run_and_flush(int argc, char** argv) {
  const int code = run(argc, argv);
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed) return code;
  return complain("cannot write to the standard output: it is closed, or full", exit_failure, true);
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_files_apart();
  try {
    return run_and_flush(argc, argv);
  } catch (const hymn::BadArguments& bad) {
    return complain(bad.what(), exit_bad_arguments, hymn::speaks_for_all());
  } catch (const hymn::ConfigError& bad) {
    // A rank whose environment is not that of the others has to speak for itself.
    const bool aloud = hymn::speaks_for_all() || environment_is_bad();
    return complain(bad.what(), exit_bad_arguments, aloud);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory for buffers of this size", exit_failure, true);
  } catch (const std::exception& error) {
    return complain(error.what(), exit_failure, true);
  }
}
