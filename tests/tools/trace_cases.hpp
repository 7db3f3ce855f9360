// Jobs whose faults are known, and what `hymn trace` says of them.
#pragma once

#include <string>
#include <vector>

#include "tests/tools/dump_maker.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/verdict.hpp"

namespace hymn::test {

std::vector<trace::Finding> findings_of(const std::vector<DumpMaker>& makers);
/// All that is said of the first finding, in one text.
std::string first_text(const std::vector<DumpMaker>& makers);
/// The findings alone, without what was looked at.
std::string verdict_text(const std::vector<DumpMaker>& makers);
std::vector<trace::FindingKind> kinds_of(const std::vector<trace::Finding>& findings);
/// Four ranks that have done `count` collectives on a group of all.
std::vector<DumpMaker> after_steps(int count, int ranks = 4);
/// All but the last of four ranks wait in #412.
std::vector<DumpMaker> waiting_for_three();
/// Group 1 of ranks 0-2, group 2 of ranks 2-3: rank 2 is in both.
std::vector<DumpMaker> two_groups();

}  // namespace hymn::test
