#include "tools/preloaded.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "hymn/error.hpp"
#include "hymn/settings.hpp"

namespace hymn {
namespace {

constexpr const char* library_name = "libhymn-preload.so";

/// What it prints when it is asked for its version; empty: it could not be asked.
std::string version_of(const std::string& launcher) {
  std::string quoted;
  for (const char letter : launcher)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  std::FILE* const output = ::popen(fmt::format("'{}' --version 2>/dev/null", quoted).c_str(), "r");
  if (output == nullptr) return {};
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), output) != nullptr) text += part.data();
  ::pclose(output);
  return text;
}

/// By what a launcher gives its ranks a variable; empty: they have those of the launcher.
std::vector<std::string> option_for(const std::string& launcher, const std::string& preload) {
  const std::string version = version_of(launcher);
  if (version.find("Open MPI") != std::string::npos || version.find("OpenRTE") != std::string::npos)
    return {"-x", "LD_PRELOAD=" + preload};
  if (version.find("HYDRA") != std::string::npos) return {"-genv", "LD_PRELOAD", preload};
  return {};
}

/// Open MPI's `-x` is for the programs up to the next ":" alone; Hydra's `-genv` is for all.
std::vector<std::string> with_option(const std::vector<std::string>& command,
                                     const std::vector<std::string>& option) {
  const bool is_for_all = option.empty() || option.front() != "-x";
  std::vector<std::string> made;
  for (const std::string& word : command) {
    made.push_back(word);
    if (made.size() == 1 || (word == ":" && !is_for_all))
      made.insert(made.end(), option.begin(), option.end());
  }
  return made;
}

}  // namespace

std::string preload_library() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&hymn::version), &found) != 0 &&
      found.dli_fname != nullptr) {
    std::error_code ignored;
    const auto own = std::filesystem::canonical(found.dli_fname, ignored);
    const std::filesystem::path library = own.parent_path() / library_name;
    if (std::filesystem::exists(library, ignored)) return library.string();
  }
  throw UnsupportedError(fmt::format("there is no {} beside libhymn.so", library_name),
                         {.remedy = "install hymn with it"});
}

int preload_command() {
  fmt::print("{}\n", preload_library());
  return 0;
}

bool is_mpi_launcher(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename().string();
  constexpr std::array launchers = {"mpirun", "mpiexec", "orterun", "prterun", "srun"};
  return std::ranges::any_of(launchers, [&](const char* launcher) {
    return name == launcher || name.starts_with(std::string(launcher) + ".");
  });
}

int run_preloaded(std::vector<std::string> command) {
  std::string preload = preload_library();
  if (const char* const others = std::getenv("LD_PRELOAD"); others != nullptr && *others != 0)
    preload = fmt::format("{}:{}", others, preload);
  const std::vector<std::string> option = option_for(command.front(), preload);
  if (option.empty()) ::setenv("LD_PRELOAD", preload.c_str(), 1);
  command = with_option(command, option);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  throw UnsupportedError(
      fmt::format("{} cannot be started: {}", command.front(), std::strerror(errno)));
}

}  // namespace hymn
