// `hymn info`
#pragma once

#include <string>

namespace hymn {

/// What hymn is, how it was built and how it is set up, for people or as JSON. MPI is not touched.
/// Throws ConfigError when a HYMN_* variable is malformed or unknown.
std::string info_text(bool json);

}  // namespace hymn
