// What measured costs depend on beside the machine: a table made with other libraries is stale.
#pragma once

#include <string>

#include "base/private.hpp"

namespace hymn {

/// "hymn 0.1.0, Open MPI v4.1.4". MPI need not be initialised.
HYMN_PRIVATE std::string tuning_library();

}  // namespace hymn
