#include "tools/program_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "hymn/error.hpp"
#include "tools/bad_arguments.hpp"

namespace hymn {

Program read_program(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw BadArguments(fmt::format("cannot read {}", name));
  try {
    return Program::from_json(text.str());
  } catch (const UsageError& error) {
    throw BadArguments(fmt::format("{} is no captured program: {}", name, error.problem()));
  }
}

}  // namespace hymn
