// The verdicts over a job: each looks for one kind of fault, and all together say what is wrong.
#pragma once

#include <vector>

#include "tools/trace/finding.hpp"
#include "tools/trace/job.hpp"
#include "tools/trace/waits.hpp"

namespace hymn::trace {

/// What the verdicts look at.
struct Case {
  explicit Case(const Job& whole)
      : job(whole), waits(find_waits(whole)), waits_of(waits_of_ranks(whole, waits)) {}
  const Job& job;
  std::vector<Wait> waits;
  std::vector<std::vector<std::size_t>> waits_of;  ///< indices in `waits`, for each rank
};

/// Ranks that have not entered a collective in which others wait.
std::vector<Finding> find_missing(const Case& all);
/// Ranks that have not come to make or shrink a group, or to end the world, where others wait.
std::vector<Finding> find_unmade(const Case& all);
/// Collectives that all members have entered alike, and yet do not leave.
std::vector<Finding> find_stuck(const Case& all);
/// Ranks that wait for ranks that wait for others, to the end.
std::vector<Finding> find_chains(const Case& all);
/// Ranks that wait for each other in a circle.
std::vector<Finding> find_cycles(const Case& all);
/// Collectives that the members of a group have called differently.
std::vector<Finding> find_mismatches(const Case& all);
/// Sends and receives without their partners.
std::vector<Finding> find_lonely(const Case& all);
/// Ranks that have died or were lost.
std::vector<Finding> find_deaths(const Case& all);
/// Ranks that come last again and again; for information.
std::vector<Finding> find_slow(const Case& all);

/// All of them, the most severe first; what merely follows from another finding is left out.
std::vector<Finding> judge(const Job& job);

/// Tells which operation a finding is about.
void name_wait(Finding& finding, const Wait& wait);
/// A finding about the operation that is waited for.
Finding finding_about(FindingKind kind, const Wait& wait);
/// "ranks 0-2 have waited 30.0 s at solver.cpp:91"
std::string waiting_text(const Wait& wait);

}  // namespace hymn::trace
