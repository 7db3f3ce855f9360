// `hymn explain`
#pragma once

#include <cstddef>
#include <string>

namespace CLI {
class App;
}

namespace hymn {

/// As given.
struct ExplainArguments {
  std::string collective;
  std::string dtype = "float32";
  std::string op = "sum";
  int ranks = 0;     ///< 0: a rank for each GPU with --gpus, else for each core
  std::string topo;  ///< "box.xml[:hosts]"
  std::string synthetic;
  bool gpus = false;
  bool threads = false;
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{1} << 30;
  bool json = false;
};

void declare_explain_arguments(CLI::App& app, ExplainArguments& arguments);

/// What is to be printed. Throws BadArguments and ConfigError.
std::string explain_text(const ExplainArguments& arguments);

}  // namespace hymn
