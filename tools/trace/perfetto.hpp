// The operations as a trace for Perfetto (https://ui.perfetto.dev) and Chrome's about:tracing.
#pragma once

#include <string>

#include "tools/trace/job.hpp"

namespace hymn::trace {

/// Ranks are processes, groups are threads. Times are those of each rank's own clock.
std::string perfetto_json(const Job& job);

}  // namespace hymn::trace
