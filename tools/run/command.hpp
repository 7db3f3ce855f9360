// `hymn run`
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hymn {

/// As given.
struct RunArguments {
  int ranks = 0;  ///< 0: one for each core that may be used
  bool label = false;
  double grace = 5;  ///< seconds that the other ranks have when one has failed
  bool keep_going = false;
};

void declare_run_arguments(CLI::App& app, RunArguments& arguments);

/// The arguments of the command without the "--" that may stand before the program of `hymn run`,
/// whose options `app` knows.
std::vector<char*> without_separator(const CLI::App& app, int argc, char** argv);

/// Starts a program several times on this host, as the ranks of one world, and waits for them;
/// returns the exit code of the first that has failed. Throws BadArguments and ResourceError.
int run_command(const RunArguments& arguments, const std::vector<std::string>& program);

}  // namespace hymn
