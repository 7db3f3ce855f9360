#include "tests/tools/trace_cases.hpp"

namespace hymn::test {

using trace::Finding;
using trace::FindingKind;

std::vector<Finding> findings_of(const std::vector<DumpMaker>& makers) {
  return trace::judge(job_of(makers));
}

std::string first_text(const std::vector<DumpMaker>& makers) {
  const trace::Job job = job_of(makers);
  const std::vector<Finding> findings = trace::judge(job);
  const std::string text = trace::report_text(job, findings, {});
  return text.substr(0, text.find("\n2. "));
}

std::string verdict_text(const std::vector<DumpMaker>& makers) {
  const trace::Job job = job_of(makers);
  const std::string text = trace::report_text(job, trace::judge(job), {});
  return text.substr(0, text.find("\nlooked at"));
}

std::vector<FindingKind> kinds_of(const std::vector<Finding>& findings) {
  std::vector<FindingKind> kinds;
  for (const Finding& finding : findings) kinds.push_back(finding.kind);
  return kinds;
}

std::vector<DumpMaker> after_steps(int count, int ranks) {
  std::vector<DumpMaker> makers = make_dumps(ranks);
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  for (DumpMaker& maker : makers) maker.group("1", "dp", all).calls(count, "1", {.age = 40});
  return makers;
}

std::vector<DumpMaker> waiting_for_three() {
  std::vector<DumpMaker> makers = after_steps(411);
  for (int rank = 0; rank < 3; ++rank) makers[rank].call("1", open_call());
  return makers;
}

std::vector<DumpMaker> two_groups() {
  std::vector<DumpMaker> makers = make_dumps(4);
  for (const int rank : {0, 1, 2}) makers[rank].group("1", "dp", {0, 1, 2});
  for (const int rank : {2, 3}) makers[rank].group("2", "tp", {2, 3});
  return makers;
}

}  // namespace hymn::test
