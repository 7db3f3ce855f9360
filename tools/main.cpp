// The `hymn` command.
//
// Exit codes: 0, 1 when something went wrong or a result was wrong, 2 for bad arguments and
// settings.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <string>

#include "hymn/error.hpp"
#include "hymn/settings.hpp"
#include "tools/bench_command.hpp"
#include "tools/info_command.hpp"

namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_arguments = 2;

// What all ranks would say alike only the first says. Before MPI is up the launcher's word must do;
// without one this process is alone.
bool speaks() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  }
  return true;
}

int complain(const std::string& problem, int exit_code, bool aloud) {
  if (aloud) fmt::print(stderr, "hymn: {}\n", problem);
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_failure = error.get_exit_code() != 0;
    if (speaks()) app.exit(error);
    return is_failure ? exit_bad_arguments : 0;
  }
  if (*bench) return hymn::bench_command(arguments);
  const std::string text = hymn::info_text(json);
  if (speaks()) fmt::print("{}", text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const hymn::BadArguments& bad) {
    return complain(bad.what(), exit_bad_arguments, speaks());
  } catch (const hymn::ConfigError& bad) {
    return complain(bad.what(), exit_bad_arguments, speaks());
  } catch (const std::bad_alloc&) {
    return complain("not enough memory for buffers of this size", exit_failure, true);
  } catch (const std::exception& error) {
    return complain(error.what(), exit_failure, true);
  }
}
