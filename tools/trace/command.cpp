// `hymn trace`: reads the dumps of a job, and tells what is wrong with it.
#include "tools/trace/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "hymn/error.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/launched.hpp"
#include "tools/pictures.hpp"
#include "tools/trace/files.hpp"
#include "tools/trace/live.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/verdict.hpp"
#include "tools/write_file.hpp"

namespace hymn {

namespace {

constexpr int exit_fault = 1;
constexpr std::size_t most_last = 100000;

void check(const TraceArguments& arguments) {
  if (arguments.names.empty() == (arguments.live == 0))
    throw BadArguments(arguments.live == 0 ? "tell where the dumps are, or --live PID"
                                           : "--live reads no dumps: leave them out");
  if (!arguments.dump.empty() && arguments.live == 0) throw BadArguments("--dump goes with --live");
  const int to_output = (arguments.json ? 1 : 0) + (arguments.svg == "-" ? 1 : 0) +
                        (arguments.perfetto == "-" ? 1 : 0);
  if (to_output > 1)
    throw BadArguments("only one of --json, --svg - and --perfetto - can have the standard output");
  if (arguments.json && arguments.last > 0)
    throw BadArguments("--last prints text: it cannot be combined with --json");
}

// Exit code 1 says that the job has a fault; that a file could not be written is another matter.
void write_picture(const std::string& file, const std::string& content) {
  try {
    write_file(file, content);
  } catch (const ResourceError& error) {
    throw BadArguments(error.what());
  }
}

}  // namespace

void declare_trace_arguments(CLI::App& app, TraceArguments& arguments) {
  app.add_option("dumps", arguments.names,
                 "dumps: files, folders of them, or what their names have before the rank")
      ->option_text("FILE|FOLDER|BASE ...");
  app.add_option("--live", arguments.live,
                 "instead of dumps: read the memory of the ranks on this host of the job that this "
                 "process, or one that it has started, takes part in")
      ->option_text("PID")
      ->check(CLI::PositiveNumber);
  app.add_option("--dump", arguments.dump, "with --live: also keep what was read, as dumps")
      ->option_text("FOLDER|BASE");
  app.add_option("--job", arguments.job, "of several jobs, the one with this id, or ID:RANKS")
      ->option_text("ID");
  app.add_option("--last", arguments.last, "also print the last N operations of each rank")
      ->option_text("N")
      ->check(CLI::Range(std::size_t{1}, most_last));
  app.add_option("--svg", arguments.svg, "write a timeline; - is the standard output")
      ->option_text("FILE");
  app.add_option("--perfetto", arguments.perfetto, "write a trace for Perfetto and Chrome")
      ->option_text("FILE");
  app.add_flag("--json", arguments.json, "print JSON in place of text");
}

int trace_command(const TraceArguments& arguments) {
  check(arguments);
  if (!speaks_for_all()) return 0;
  trace::LoadedDumps loaded =
      arguments.live != 0 ? trace::load_live(arguments.live, arguments.job, arguments.dump)
                          : trace::load_dumps(trace::files_named(arguments.names), arguments.job);
  const trace::Job job(std::move(loaded.dumps));
  const std::vector<trace::Finding> findings = trace::judge(job);
  if (!arguments.svg.empty())
    write_picture(arguments.svg, pictures().timeline_svg(job, findings, arguments.last));
  if (!arguments.perfetto.empty()) write_picture(arguments.perfetto, pictures().perfetto_json(job));
  if (arguments.json) {
    fmt::print("{}", trace::report_json(job, findings, loaded.notes));
  } else if (arguments.svg != "-" && arguments.perfetto != "-") {
    fmt::print("{}", trace::report_text(job, findings, loaded.notes));
    if (arguments.last > 0) fmt::print("{}", trace::last_text(job, arguments.last));
  }
  return trace::has_fault(findings) ? exit_fault : 0;
}

}  // namespace hymn
