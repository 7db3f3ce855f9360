// Captured programs in files: for `hymn check` and `hymn predict`.
#pragma once

#include <string>

#include "hymn/program.hpp"

namespace hymn {

/// Throws BadArguments for a file that cannot be read, or is no program.
Program read_program(const std::string& name);

}  // namespace hymn
