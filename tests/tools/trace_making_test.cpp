// What `hymn trace` says of groups that are made or shrunk, of the end of the world, and of ranks
// that test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "control/coordinator.hpp"
#include "tests/tools/trace_cases.hpp"

namespace hymn::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using trace::Finding;
using trace::FindingKind;

/// Dumps that nothing but a person has asked for.
std::vector<DumpMaker> live_dumps(int ranks) {
  std::vector<DumpMaker> makers = make_dumps(ranks);
  for (DumpMaker& maker : makers) maker.with("trigger", "live").with("reason", "");
  return makers;
}

/// Ranks 0 and 1 of 0-2 make group 1.
std::vector<DumpMaker> without_rank_2() {
  std::vector<DumpMaker> makers = live_dumps(4);
  for (const int rank : {0, 1}) makers[rank].making("new_group", 1, {0, 1, 2}, 4.2);
  return makers;
}

TEST(TraceMaking, NamesWhoHasNotComeToANewGroup) {
  EXPECT_EQ(verdict_text(without_rank_2()),
            "1. making: making group 1 of ranks 0-2 has waited 4.2 s on ranks 0-1; missing: rank 2 "
            "(nodeB, pid 4713)\n"
            "     it has made no call on any group\n"
            "     next: see what keeps rank 2: gdb -p 4713 on nodeB\n");
}

// Its leader, which is to draw its number, has not come.
TEST(TraceMaking, OfMembersAlone) {
  std::vector<DumpMaker> makers = live_dumps(4);
  for (const int rank : {1, 2})
    makers[rank].making("new_group", control::undrawn_uid(0, 4), {0, 1, 2}, 4.2);
  EXPECT_THAT(verdict_text(makers),
              HasSubstr("1. making: making a group of ranks 0-2 has waited 4.2 s on ranks 1-2; "
                        "missing: rank 0 ("));
}

// What stands for a number that is not drawn yet is no number of a group: rank 0 is to lead two.
TEST(TraceMaking, OfMembersAloneEachGroupIsTold) {
  std::vector<DumpMaker> makers = live_dumps(4);
  const std::uint64_t undrawn = control::undrawn_uid(0, 4);
  makers[1].making("new_group", undrawn, {0, 1}, 4.2).made_with_tag("one");
  makers[2].making("new_group", undrawn, {0, 2}, 4.1).made_with_tag("one");
  makers[3].making("new_group", undrawn, {0, 2, 3}, 4.0);
  const std::string text = verdict_text(makers);
  EXPECT_THAT(text, HasSubstr("making a group of ranks 0-1 with tag 'one' has waited 4.2 s on rank "
                              "1; missing: rank 0 ("));
  EXPECT_THAT(text, HasSubstr("making a group of ranks 0, 2 with tag 'one' has waited 4.1 s on "
                              "rank 2; missing: rank 0 ("));
  EXPECT_THAT(text, HasSubstr("making a group of ranks 0, 2-3 has waited 4.0 s on rank 3; missing: "
                              "ranks 0, 2\n"));
  EXPECT_THAT(text, HasSubstr("it has been making a group of ranks 0, 2 with tag 'one' for 4.1 s"));
  EXPECT_THAT(text, Not(HasSubstr(std::to_string(undrawn))));
  const trace::Job job = job_of(makers);
  const auto json = nlohmann::json::parse(trace::report_json(job, trace::judge(job), {}));
  for (const auto& finding : json["findings"]) EXPECT_TRUE(finding["group"].is_null()) << finding;
}

// They differ in the tag alone.
TEST(TraceMaking, OfDifferentTags) {
  std::vector<DumpMaker> makers = live_dumps(2);
  makers[0].making("new_group", control::first_local_uid, {0, 1}, 4.2).made_with_tag("one");
  makers[1].making("new_group", control::undrawn_uid(0, 2), {0, 1}, 4.2).made_with_tag("other");
  const std::string text = verdict_text(makers);
  EXPECT_THAT(text, HasSubstr("rank 0 waits in new_group of ranks 0-1 with tag 'one' (group "));
  EXPECT_THAT(text, HasSubstr("rank 1 waits in new_group of ranks 0-1 with tag 'other' (a group)"));
}

TEST(TraceMaking, TellsOfOneThatIsStopped) {
  std::vector<DumpMaker> makers = without_rank_2();
  makers[2].call("0", {.op = "barrier"}).peer(2, "stalled", "its process is stopped");
  const std::string text = verdict_text(makers);
  EXPECT_THAT(text, HasSubstr("missing: rank 2 (nodeB, pid 4713)\n"
                              "     its process is stopped; last seen leaving barrier #1 of group "
                              "'default_pg' at solver.cpp:88, 31.0 s before its dump\n"
                              "     next: look for who stopped it"));
}

TEST(TraceMaking, IsInTheJson) {
  const trace::Job job = job_of(without_rank_2());
  const auto json = nlohmann::json::parse(trace::report_json(job, trace::judge(job), {}));
  EXPECT_EQ(json["verdict"], "fault");
  const auto& finding = json["findings"][0];
  EXPECT_EQ(finding["kind"], "making");
  EXPECT_EQ(finding["op"], "new_group");
  EXPECT_EQ(finding["group"], "1");
  EXPECT_TRUE(finding["sequence"].is_null());
  EXPECT_EQ(finding["ranks"], (std::vector{2}));
  EXPECT_EQ(finding["waiting"], (std::vector{0, 1}));
  EXPECT_NEAR(finding["waited_s"].get<double>(), 4.2, 0.01);
}

TEST(TraceMaking, WhoHasMadeTheGroupIsNotMissing) {
  std::vector<DumpMaker> makers = without_rank_2();
  makers[2].group("1", "dp", {0, 1, 2});
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::making));
  EXPECT_THAT(findings[0].title, HasSubstr("on ranks 0-1; all have come"));
  EXPECT_THAT(findings[0].culprits, IsEmpty());
}

TEST(TraceMaking, OfARankWithoutADumpNothingIsSure) {
  std::vector<DumpMaker> makers = without_rank_2();
  makers.erase(makers.begin() + 2);
  EXPECT_THAT(first_text(makers), HasSubstr("; perhaps missing: rank 2\n     there is no dump"));
  // Nor where its dump is older, by the clock of its host.
  makers = without_rank_2();
  makers[1].making("new_group", 1, {0, 1, 3}, 4.2);
  makers[0].making("new_group", 1, {0, 1, 3}, 4.2).with("host", "nodeB");
  makers[3].with("time_ns", DumpMaker::time_ns - 10'000'000'000);
  EXPECT_THAT(first_text(makers), HasSubstr("; perhaps missing: rank 3"));
}

TEST(TraceMaking, WhatHasOnlyBegunIsNoFault) {
  std::vector<DumpMaker> makers = live_dumps(3);
  makers[0].making("new_group", 1, {0, 1, 2}, 0.2);
  EXPECT_THAT(findings_of(makers), IsEmpty());
  // Unless it has come to its limit.
  makers[0].making("new_group", 1, {0, 1, 2}, 0.4, 0.2);
  ASSERT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::making));
  EXPECT_NEAR(findings_of(makers)[0].waited_seconds, 0.2, 0.01);
  // What was given up long before the dump is over.
  makers[0].making("new_group", 1, {0, 1, 2}, 9, 5);
  EXPECT_THAT(findings_of(makers), IsEmpty());
}

TEST(TraceMaking, NamesWhoHasNotComeToShrink) {
  std::vector<DumpMaker> makers = make_dumps(4);
  for (DumpMaker& maker : makers) maker.call("0", {.op = "barrier"}).aborted("0", "rank 0 shrinks");
  for (const int rank : {0, 1, 2}) makers[rank].making("shrink", 0, {0, 1, 2, 3}, 4);
  EXPECT_EQ(verdict_text(makers),
            "1. making: shrinking group 'default_pg' has waited 4.0 s on ranks 0-2; missing: rank "
            "3 (nodeB, pid 4714)\n"
            "     last seen leaving barrier #1 of group 'default_pg' at solver.cpp:88, 31.0 s "
            "before its dump\n"
            "     next: see what keeps rank 3: gdb -p 4714 on nodeB\n");
  // Whoever is gone is what it is shrunk for.
  makers[3].with("written_by", 0);
  makers[0].peer(3, "dead", "its process was killed by signal 9 (SIGKILL)");
  EXPECT_THAT(verdict_text(makers), HasSubstr("on ranks 0-2; all have come"));
}

TEST(TraceMaking, DumpsOfABarrierThatHasJustCompletedTellOfTheShrink) {
  std::vector<DumpMaker> makers = make_dumps(4);
  for (DumpMaker& maker : makers) maker.with("trigger", "abort").aborted("0", "rank 0 shrinks");
  for (const int rank : {0, 1, 2}) makers[rank].call("0", {.op = "barrier", .age = 0.02});
  makers[3].call("0", {.op = "barrier", .state = "scheduled", .age = 0.02});
  EXPECT_THAT(findings_of(makers), IsEmpty()) << "rank 3 is on its way out";
  for (const int rank : {0, 1, 2}) makers[rank].making("shrink", 0, {0, 1, 2, 3}, 0.01);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::making));
  EXPECT_FALSE(findings[0].is_fault) << "rank 3 may come at once";
  EXPECT_THAT(findings[0].title, HasSubstr("shrinking group 'default_pg' has waited 0.0 s on ranks "
                                           "0-2; missing: rank 3"));
  // A limit that has passed for rank 3 is another matter.
  makers[3].with("trigger", "timeout");
  EXPECT_THAT(kinds_of(findings_of(makers)), Contains(FindingKind::stuck));
}

TEST(TraceMaking, NamesWhoHasNotComeToTheEnd) {
  std::vector<DumpMaker> makers = live_dumps(4);
  for (const int rank : {0, 1}) {
    makers[rank].making("end", 0, {0, 1, 2, 3}, 3);
    makers[rank].peer(rank, "left", "it has ended its world");
  }
  makers[2].making("end", 0, {0, 1, 2, 3}, 3);
  EXPECT_THAT(first_text(makers),
              HasSubstr("making: ending the world has waited 3.0 s on ranks 0-2; missing: rank 3 "
                        "(nodeB, pid 4714)\n     it has made no call on any group\n"));
}

TEST(TraceMaking, IsPartOfADeadlock) {
  std::vector<DumpMaker> makers = without_rank_2();
  for (const int rank : {2, 3}) makers[rank].call("0", open_call("barrier"));
  EXPECT_EQ(verdict_text(makers),
            "1. cycle: deadlock: ranks 0-3 wait for each other\n"
            "     ranks 2-3 wait in barrier #1 of group 'default_pg' at solver.cpp:91 for ranks "
            "0-1\n"
            "     ranks 0-1 wait in new_group of ranks 0-2 (group 1) for rank 2\n"
            "     they have waited 30.0 s\n"
            "     next: all ranks have to make the calls on their groups in the same order\n");
}

TEST(TraceMaking, IsALinkOfAChain) {
  std::vector<DumpMaker> makers = without_rank_2();
  makers[2].call("0", recv_from(3, "scheduled"));
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::p2p, FindingKind::chain));
  EXPECT_THAT(findings[1].title, HasSubstr("in the end all wait for rank 3"));
  EXPECT_THAT(findings[1].details,
              Contains("ranks 0-1 wait in new_group of ranks 0-2 (group 1) for rank 2"));
}

TEST(TraceMaking, TellsOfAMissingRankThatMakesAnotherGroup) {
  std::vector<DumpMaker> makers = live_dumps(4);
  for (const int rank : {0, 1}) makers[rank].group("1", "dp", {0, 1, 2, 3});
  for (const int rank : {0, 1}) makers[rank].call("1", open_call("barrier"));
  for (const int rank : {2, 3}) makers[rank].making("new_group", 1, {0, 1, 2, 3}, 6);
  EXPECT_THAT(verdict_text(makers),
              HasSubstr("ranks 2-3 (nodeB) never entered barrier #1 of group 'dp#1'\n     it has "
                        "been making group 1 of ranks 0-3 for 6.0 s; it has made no call"));
}

/// Rank 0 needs rank 1, which tests a receive from rank 2, which needs rank 0.
std::vector<DumpMaker> circle_with_a_tester(const std::string& trigger) {
  std::vector<DumpMaker> makers = make_dumps(3);
  for (DumpMaker& maker : makers) maker.with("trigger", trigger);
  makers[0].call("0", recv_from(1, "scheduled"));
  MadeCall tested = recv_from(2, "scheduled");
  tested.waited_for = false;
  makers[1].call("0", tested);
  makers[2].call("0", recv_from(0, "scheduled"));
  return makers;
}

TEST(TraceTests, WhoTestsIsPartOfNoDeadlock) {
  for (const std::string trigger : {"live", "timeout"}) {
    const std::vector<DumpMaker> makers = circle_with_a_tester(trigger);
    const std::string text = verdict_text(makers);
    EXPECT_THAT(text, Not(HasSubstr("deadlock"))) << text;
    EXPECT_THAT(text, HasSubstr("rank 1 tests recv 1<-2 (#1) of group 'default_pg' at "
                                "solver.cpp:88, which needs rank 2\n"))
        << text;
    EXPECT_THAT(text, HasSubstr("in the end all wait for rank 1")) << text;
    EXPECT_THAT(text, HasSubstr("rank 1: it has been testing recv 1<-2 (#1) of group 'default_pg' "
                                "for 30.0 s at solver.cpp:88, and is free to do something else"))
        << text;
    for (const Finding& finding : findings_of(makers))
      EXPECT_THAT(finding.waiting, Not(Contains(1))) << finding.title;
  }
}

TEST(TraceTests, WhoWaitsInItIsPartOfOne) {
  std::vector<DumpMaker> makers = circle_with_a_tester("live");
  makers[1] = DumpMaker(1, 3);
  makers[1].with("trigger", "live").call("0", recv_from(2, "scheduled"));
  EXPECT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::cycle));
}

TEST(TraceTests, WhatAThreadOfHymnsMovesOnIsNotTested) {
  std::vector<DumpMaker> makers = circle_with_a_tester("live");
  makers[1].with("progress_thread", true);
  const std::string text = verdict_text(makers);
  EXPECT_THAT(text, Not(HasSubstr("deadlock"))) << text;
  EXPECT_THAT(text, Not(HasSubstr("test"))) << text;
  EXPECT_THAT(text, HasSubstr("rank 1 has started recv 1<-2 (#1)")) << text;
}

}  // namespace
}  // namespace hymn::test
