// `hymn trace`
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hymn {

/// As given.
struct TraceArguments {
  std::vector<std::string> names;  ///< files, folders, beginnings of names
  std::string job;
  int live = 0;      ///< a process of a running job; 0: not given
  std::string dump;  ///< where what is read there is kept
  std::string svg;
  std::string perfetto;
  std::size_t last = 0;  ///< 0: not given
  bool json = false;
};

void declare_trace_arguments(CLI::App& app, TraceArguments& arguments);

/// Prints the verdict and writes what was asked for; returns the exit code: 0 no fault found, 1 a
/// fault. Throws BadArguments when there is nothing to judge, or a file cannot be written.
int trace_command(const TraceArguments& arguments);

}  // namespace hymn
