// `hymn bench`
#pragma once

#include "tools/bench/options.hpp"

namespace hymn {

/// Measures, and returns the exit code: 0, or 1 when a result was wrong. Throws BadArguments.
int bench_command(const BenchArguments& arguments);

}  // namespace hymn
