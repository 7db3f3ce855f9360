// The verdict as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/files.hpp"
#include "tools/trace/finding.hpp"
#include "tools/trace/job.hpp"

namespace hymn::trace {

/// Whether something is wrong.
bool has_fault(const std::vector<Finding>& findings);

std::string report_text(const Job& job, const std::vector<Finding>& findings,
                        const std::vector<FileNote>& notes);

/// One object; docs/trace.md tells its keys.
std::string report_json(const Job& job, const std::vector<Finding>& findings,
                        const std::vector<FileNote>& notes);

/// The last operations of each rank, put beside each other by group and sequence.
std::string last_text(const Job& job, std::size_t count);

}  // namespace hymn::trace
