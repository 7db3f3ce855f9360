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
#include <functional>
#include <memory>
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

/// What a command does once its arguments are known: its exit code.
using Action = std::function<int()>;

/// A command of a job speaks once.
int print(const std::string& text) {
  if (hymn::speaks_for_all()) fmt::print("{}", text);
  return 0;
}

/// `declare(app, arguments)` tells what may be given; `act(arguments)` is the command.
template <class Arguments>
Action command(CLI::App& app, void (*declare)(CLI::App&, Arguments&),
               int (*act)(const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  declare(app, *arguments);
  return [arguments, act] { return act(*arguments); };
}

/// The same of one that only prints what `tell(arguments)` returns.
template <class Arguments>
Action printed(CLI::App& app, void (*declare)(CLI::App&, Arguments&),
               std::string (*tell)(const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  declare(app, *arguments);
  return [arguments, tell] { return print(tell(*arguments)); };
}

Action info(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "as JSON");
  return [json] { return print(hymn::info_text(*json)); };
}

Action start(CLI::App& app) {
  const auto arguments = std::make_shared<hymn::RunArguments>();
  hymn::declare_run_arguments(app, *arguments);
  return [arguments, &app] { return hymn::run_command(*arguments, app.remaining()); };
}

struct Command {
  const char* name;
  const char* help;
  Action (*declare)(CLI::App& app);
};

constexpr Command commands[] = {
    {"info", "Show version, build and every HYMN_* variable", info},
    {"bench", "Time a collective, under mpirun or alone; verify its results (docs/command.md)",
     [](CLI::App& app) {
       return command(app, hymn::declare_bench_arguments, hymn::bench_command);
     }},
    {"topo", "Show the machines of the job and the ranks on them",
     [](CLI::App& app) { return command(app, hymn::declare_topo_arguments, hymn::topo_command); }},
    {"tune", "Measure every path here and keep the times for later runs (docs/tuning.md)",
     [](CLI::App& app) { return command(app, hymn::declare_tune_arguments, hymn::tune_command); }},
    {"explain", "Tell which path a collective takes, and why not another (docs/tuning.md)",
     [](CLI::App& app) {
       return printed(app, hymn::declare_explain_arguments, hymn::explain_text);
     }},
    {"doctor", "Look for what will go wrong in a job, under its launcher (docs/doctor.md)",
     [](CLI::App& app) {
       return command(app, hymn::declare_doctor_arguments, hymn::doctor_command);
     }},
    {"trace", "Tell from the flight recorder's dumps what is wrong with a job (docs/trace.md)",
     [](CLI::App& app) {
       return command(app, hymn::declare_trace_arguments, hymn::trace_command);
     }},
    {"check", "Tell whether captured programs of all ranks match (docs/functional.md)",
     [](CLI::App& app) {
       return command(app, hymn::declare_check_arguments, hymn::check_command);
     }},
    {"predict", "Tell how long a captured program should take elsewhere (docs/functional.md)",
     [](CLI::App& app) {
       return printed(app, hymn::declare_predict_arguments, hymn::predict_text);
     }},
    {"preload", "Print where the library for unmodified MPI programs is (docs/preload.md)",
     [](CLI::App&) { return Action(hymn::preload_command); }},
    {"run",
     "Start a program as the ranks of one world on this host, or mpirun with libhymn-preload.so "
     "before its ranks (docs/worlds.md, docs/preload.md)",
     start},
};

int run(int argc, char** argv) {
  CLI::App app("Looks at hymn's set-up and measures its collectives.", "hymn");
  app.set_version_flag("--version", std::string("hymn ") + hymn::version());
  app.require_subcommand(1);
  Action chosen;
  for (const Command& each : commands) {
    CLI::App& own = *app.add_subcommand(each.name, each.help);
    own.callback([&chosen, act = each.declare(own)] { chosen = act; });
  }
  try {
    std::vector<char*> words = hymn::without_separator(*app.get_subcommand("run"), argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    const bool is_failure = error.get_exit_code() != 0;
    if (hymn::speaks_for_all())
      app.exit(error);
    else if (is_failure)
      hymn::let_the_first_rank_speak();
    return is_failure ? exit_bad_arguments : 0;
  }
  return chosen();
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
