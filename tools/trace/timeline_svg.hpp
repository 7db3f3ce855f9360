// The operations of all ranks over time, as a picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/trace/finding.hpp"
#include "tools/trace/job.hpp"

namespace hymn::trace {

/// One row a rank, at most most_rows of them, and of each the last `count` operations (0: 64).
std::string timeline_svg(const Job& job, const std::vector<Finding>& findings, std::size_t count);

constexpr std::size_t most_rows = 128;

}  // namespace hymn::trace
