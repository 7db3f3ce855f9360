// `hymn check`: whether the captured programs of all ranks match, before any of them runs.
#include "tools/check/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "hymn/error.hpp"
#include "hymn/program.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/launched.hpp"
#include "tools/program_file.hpp"
#include "tools/write_file.hpp"

namespace hymn {
namespace {

constexpr int exit_mismatch = 1;

/// "2 programs match: 12 calls on 3 groups"
std::string summary(const std::vector<Program>& programs) {
  std::size_t calls = 0;
  std::set<std::pair<std::string, std::vector<int>>> groups;
  for (const Program& program : programs) {
    calls += program.count(traits_of(NodeKind::collective).name) +
             program.count(traits_of(NodeKind::call).name);
    for (const ProgramGroup& group : program.groups) groups.emplace(group.tag, group.ranks);
  }
  return fmt::format("{} program{} match{}: {} call{} on {} group{}\n", programs.size(),
                     programs.size() == 1 ? "" : "s", programs.size() == 1 ? "es" : "", calls,
                     calls == 1 ? "" : "s", groups.size(), groups.size() == 1 ? "" : "s");
}

}  // namespace

void declare_check_arguments(CLI::App& app, CheckArguments& arguments) {
  app.add_option("programs", arguments.files, "captured programs as JSON, one of each rank")
      ->option_text("PROGRAM.json ...")
      ->required();
  app.add_option("--dot", arguments.dot,
                 "also write the first of them for Graphviz; - is the standard output, in place of "
                 "the text")
      ->option_text("FILE");
}

int check_command(const CheckArguments& arguments) {
  if (!speaks_for_all()) return 0;
  std::vector<Program> programs;
  for (const std::string& file : arguments.files) programs.push_back(read_program(file));
  std::string mismatch;
  try {
    mismatch = find_mismatch(programs);
  } catch (const UsageError& error) {
    throw BadArguments(error.problem());
  }
  if (!arguments.dot.empty()) write_file(arguments.dot, programs.front().to_dot());
  if (arguments.dot != "-")
    fmt::print("{}", mismatch.empty() ? summary(programs) : mismatch + "\n");
  return mismatch.empty() ? 0 : exit_mismatch;
}

}  // namespace hymn
