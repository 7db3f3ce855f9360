// What `hymn doctor` makes of its facts. Pure functions: tests give them facts made by hand.
//
// Each adds its findings, and says what is fine.
#pragma once

#include "tools/doctor/facts.hpp"
#include "tools/doctor/findings.hpp"

namespace hymn {

/// All of the following.
void judge(const JobFacts& job, FindingList& findings);

void judge_mpi(const JobFacts& job, FindingList& findings);
void judge_settings(const JobFacts& job, FindingList& findings);
void judge_environment(const JobFacts& job, FindingList& findings);
void judge_cpus(const JobFacts& job, FindingList& findings);
void judge_memory(const JobFacts& job, FindingList& findings);
void judge_files(const JobFacts& job, FindingList& findings);
void judge_network(const JobFacts& job, FindingList& findings);
void judge_gpus(const JobFacts& job, FindingList& findings);
void judge_limits(const JobFacts& job, FindingList& findings);

/// Whether a variable is one on which ranks should agree, or should at least be seen not to.
bool is_compared(const std::string& variable);

/// "64 MiB"
std::string size_text(std::uint64_t bytes);

}  // namespace hymn
