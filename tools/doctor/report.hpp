// Findings as text for people, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/findings.hpp"

namespace hymn {

/// What was looked at, for the heading.
struct DoctorScope {
  int ranks = 1;
  std::vector<std::string> hosts;
  std::string launcher;
  std::string library;
};

/// The worst first; with `verbose`, also what is fine.
std::string report_text(const DoctorScope& scope, const FindingList& findings, bool verbose);
std::string report_json(const DoctorScope& scope, const FindingList& findings);

/// 0 fine or notes only, 3 warnings, 4 errors.
int exit_code(Severity worst) noexcept;

}  // namespace hymn
