// What hymn is and how it is set up, for people and programs that want to look.
#pragma once

#include "hymn/standard.hpp"  // first

#include <string>
#include <vector>

#include "hymn/export.hpp"

namespace hymn {

/// One HYMN_* environment variable.
struct Setting {
  std::string name;   ///< "HYMN_TIMEOUT"
  std::string value;  ///< in effect
  std::string default_value;
  std::string meaning;
  bool from_environment = false;
};

/// Every HYMN_* variable with its effective value. Throws ConfigError when one is malformed or
/// unknown.
HYMN_API std::vector<Setting> settings();

/// One fact of `hymn info`, for example {"MPI library", "Open MPI v4.1.4 …"}.
struct BuildFact {
  std::string name;
  std::string value;
};

/// Version, build and libraries. Does not initialise MPI.
HYMN_API std::vector<BuildFact> build_facts();

/// The GPUs and their libraries, which are loaded for this: {"NCCL", "2.28.9"}. What is not there
/// is "none", with the reason. Makes no context on a GPU.
HYMN_API std::vector<BuildFact> gpu_facts();

/// "0.1.0"
HYMN_API const char* version() noexcept;

}  // namespace hymn
