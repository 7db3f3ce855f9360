// `hymn check`
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hymn {

/// As given.
struct CheckArguments {
  std::vector<std::string> files;
  std::string dot;
};

void declare_check_arguments(CLI::App& app, CheckArguments& arguments);

/// Prints whether the programs match; returns the exit code: 0 they do, 1 they do not. Throws
/// BadArguments for a file that is no program.
int check_command(const CheckArguments& arguments);

}  // namespace hymn
