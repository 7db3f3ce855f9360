// Programs run as users run them.
#pragma once

#include <string>

namespace hymn::test {

struct ShellOutcome {
  int exit_code = -1;  ///< -1: it was ended by a signal, or could not be started
  std::string output;
};

/// Runs a command line by the shell. Its standard error is part of the output only if the line says
/// so.
ShellOutcome run_shell(const std::string& line);

}  // namespace hymn::test
