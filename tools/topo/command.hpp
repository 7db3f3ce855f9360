// `hymn topo`
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace hymn {

/// As given.
struct TopoArguments {
  std::string file;
  std::string synthetic;
  std::string svg;
  std::string png;
  int hosts = 0;   ///< 0: not given
  int ranks = -1;  ///< -1: not given
  bool json = false;
};

void declare_topo_arguments(CLI::App& app, TopoArguments& arguments);

/// Shows the job, this machine, or another one; returns the exit code. Throws BadArguments,
/// ConfigError and ResourceError.
int topo_command(const TopoArguments& arguments);

}  // namespace hymn
