// Why a rank is not where others wait for it, and what it does in their place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace hymn::trace {

/// Why a rank is not there. What is told of one kind has one finding.
enum class Absence : std::uint8_t {
  dead,
  lost,
  stalled,
  left,
  no_group,  ///< it does not know the group: not made yet, or destroyed
  busy,      ///< alive, and in another operation, another call, or in none
};

/// As far as the others know: all who live are busy.
Absence absence_of(const Job& job, int rank);
bool has_left_by_error(const Job& job, int rank);
/// What to look at next, of ranks that are absent for one reason.
std::string advice_for(const Job& job, Absence absence, const std::vector<int>& ranks);
/// "ranks 3-4: it is in …", those that do the same in one line.
std::vector<std::string> where_lines(const Job& job, const std::vector<int>& ranks);

}  // namespace hymn::trace
