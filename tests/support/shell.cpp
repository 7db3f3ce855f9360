#include "tests/support/shell.hpp"

#include <sys/wait.h>

#include <array>
#include <cstdio>

namespace hymn::test {

ShellOutcome run_shell(const std::string& line) {
  ShellOutcome outcome;
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> chunk{};
  for (std::size_t got = 0; (got = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    outcome.output.append(chunk.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace hymn::test
