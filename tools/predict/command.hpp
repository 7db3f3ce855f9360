// `hymn predict`
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace hymn {

/// As given.
struct PredictArguments {
  std::string program;
  int ranks = 0;     ///< 0: as many as the program's largest group has
  std::string topo;  ///< "box.xml[:hosts]"
  std::string synthetic;
  int hosts = 0;  ///< of such machines; 0: as `topo` says, or one
  bool round_robin = false;
  bool gpus = false;
  bool json = false;
};

void declare_predict_arguments(CLI::App& app, PredictArguments& arguments);

/// What is to be printed. Throws BadArguments and ConfigError.
std::string predict_text(const PredictArguments& arguments);

}  // namespace hymn
