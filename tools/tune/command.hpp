// `hymn tune`
#pragma once

#include "tools/tune/options.hpp"

namespace hymn {

/// Measures, writes the table, says what will change, and returns the exit code: 0, or 1 on rank
/// 0's fellows when rank 0 could not write. Throws BadArguments.
int tune_command(const TuneArguments& arguments);

}  // namespace hymn
