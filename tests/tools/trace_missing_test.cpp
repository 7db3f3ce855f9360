// What `hymn trace` says of ranks that have not come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/trace_cases.hpp"

namespace hymn::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using trace::Finding;

TEST(TraceMissing, ARankThatNeverEntered) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[1].call("0", recv_from(3));
  makers[3].call("0", send_to(1));
  EXPECT_EQ(verdict_text(makers),
            "1. missing: rank 3 (nodeB, pid 4714) never entered all_reduce #412 of group 'dp#1'\n"
            "     last seen leaving send 3->1 (#1) of group 'default_pg' at solver.cpp:88, 31.0 s "
            "before its dump\n"
            "     ranks 0-2 have waited 30.0 s at solver.cpp:91\n"
            "     next: see what keeps rank 3: gdb -p 4714 on nodeB\n");
}

TEST(TraceMissing, OthersInTheShadow) {
  std::vector<DumpMaker> makers = after_steps(411);
  makers[0].call("1", open_call());
  MadeCall shadow = open_call();
  shadow.shadowed = true;
  for (const int rank : {1, 2}) makers[rank].shadows("1").call("1", shadow);
  EXPECT_THAT(first_text(makers),
              HasSubstr("missing: rank 3 (nodeB, pid 4714) never entered all_reduce #412"));
  EXPECT_THAT(first_text(makers), HasSubstr("ranks 0-2 have waited 30.0 s at solver.cpp:91; "
                                            "ranks 1-2 in the shadow of the others\n"));
  EXPECT_THAT(trace::last_text(job_of(makers), 1), HasSubstr("; shadowed by ranks 1-2"));
}

TEST(TraceMissing, AShadowThatDoesNotFollow) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[3].shadows("1");
  EXPECT_THAT(first_text(makers), HasSubstr("it has run out of input after #411 of group 'dp#1', "
                                            "and shadows the others\n"));
}

TEST(TraceMissing, ARankThatShadowsWaitFor) {
  std::vector<DumpMaker> makers = after_steps(411);
  for (const int rank : {0, 2, 3}) makers[rank].shadows("1").aborted("1", "nothing to shadow");
  makers[1].with("trigger", "abort");
  EXPECT_EQ(verdict_text(makers),
            "1. missing: rank 1 (nodeA, pid 4712) has more input, but makes no call on group "
            "'dp#1'\n"
            "     last seen leaving all_reduce #411 of group 'dp#1' at solver.cpp:88, 40.0 s "
            "before its dump\n"
            "     ranks 0, 2-3 have run out of input, and would shadow it: nothing to shadow\n"
            "     next: see what keeps rank 1: gdb -p 4712 on nodeA\n");
}

TEST(TraceMissing, TellsTheNumbers) {
  const std::vector<Finding> findings = findings_of(waiting_for_three());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].is_fault);
  EXPECT_THAT(findings[0].culprits, ElementsAre(3));
  EXPECT_THAT(findings[0].waiting, ElementsAre(0, 1, 2));
  EXPECT_EQ(findings[0].group_uid, "1");
  EXPECT_EQ(findings[0].op, "all_reduce");
  EXPECT_EQ(findings[0].sequence, 412);
  EXPECT_DOUBLE_EQ(findings[0].waited_seconds, 30.0);
}

TEST(TraceMissing, SeveralRanksAreToldTogether) {
  std::vector<DumpMaker> makers = after_steps(2, 8);
  for (const int rank : {0, 4}) makers[rank].call("1", open_call());
  EXPECT_THAT(first_text(makers),
              HasSubstr("missing: ranks 1-3, 5-7 never entered all_reduce #3 of group 'dp#1'\n"));
  EXPECT_THAT(first_text(makers), HasSubstr("ranks 0, 4 have waited 30.0 s"));
}

TEST(TraceMissing, ARankInACallOfMpi) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[3].in_call("MPI_Comm_create_group", 29.5);
  EXPECT_THAT(first_text(makers), HasSubstr("it has been in MPI_Comm_create_group for 29.5 s\n"));
}

TEST(TraceMissing, ARankThatDiedBeforeIsToldAsADeath) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[0].peer(3, "dead", "killed by signal 9");
  makers[3].with("written_by", 0).with("trigger", "death");
  EXPECT_EQ(verdict_text(makers),
            "1. death: rank 3 (nodeB, pid 4714) died: killed by signal 9\n"
            "     outside any operation; last seen leaving all_reduce #411 of group 'dp#1' at "
            "solver.cpp:88, 40.0 s before its dump\n"
            "     ranks 0-2 have waited 30.0 s at solver.cpp:91 in all_reduce #412 of group "
            "'dp#1'\n"
            "     next: look for what ended it: its log, its core, the kernel's log (out of "
            "memory), the launcher's or batch system's\n");
}

TEST(TraceMissing, TheVerdictAloneTellsWhyARankIsNotThere) {
  const auto title = [](const std::vector<DumpMaker>& makers) {
    const trace::Job job = job_of(makers);
    const std::vector<Finding> found = trace::find_missing(trace::Case(job));
    return found.size() == 1 ? found[0].title : "not one finding";
  };
  const std::string rest = " all_reduce #412 of group 'dp#1'";
  for (const auto& [state, words] : std::vector<std::pair<std::string, std::string>>{
           {"dead", "died before entering"},
           {"lost", "cannot be reached, and is waited for in"},
           {"stalled", "is stopped, and never entered"},
           {"left", "left the job without entering"}}) {
    std::vector<DumpMaker> makers = waiting_for_three();
    makers[1].peer(3, state);
    EXPECT_EQ(title(makers), "rank 3 (nodeB, pid 4714) " + words + rest);
  }
}

TEST(TraceMissing, ARankThatLeft) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[2].peer(3, "left", "it has ended its world");
  makers.pop_back();
  const std::string text = first_text(makers);
  EXPECT_THAT(text, HasSubstr("missing: rank 3 (nodeB, pid 4714) left the job without entering "
                              "all_reduce #412 of group 'dp#1'\n"));
  EXPECT_THAT(text, HasSubstr("it has ended its world; there is no dump of it"));
}

TEST(TraceMissing, AStoppedRank) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[2].peer(3, "stalled", "stopped by a signal");
  EXPECT_THAT(first_text(makers), HasSubstr("rank 3 (nodeB, pid 4714) is stopped, and never "
                                            "entered all_reduce #412"));
  EXPECT_THAT(first_text(makers), HasSubstr("stopped by a signal; last seen leaving"));
}

TEST(TraceMissing, WithoutADumpOthersTell) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers.pop_back();
  EXPECT_THAT(first_text(makers), HasSubstr("missing: rank 3 may be missing from all_reduce #412 "
                                            "of group 'dp#1'\n     there is no dump of it; all "
                                            "members of whom there is one have entered\n"));
}

TEST(TraceMissing, WhoHasNoDumpIsNotBlamedInThePlaceOfAnother) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers.erase(makers.begin() + 1);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].culprits, ElementsAre(3));
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("of rank 1 nothing tells")));
}

TEST(TraceMissing, ARankThatDoesNotKnowTheGroup) {
  std::vector<DumpMaker> makers = make_dumps(3);
  makers[0].group("4", "late", {0, 1}).call("4", open_call("barrier"));
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].culprits, ElementsAre(1));  // rank 2 is no member
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("does not know the group")));
}

TEST(TraceMissing, ADumpMadeEarlierIsNoProof) {
  std::vector<DumpMaker> makers = after_steps(5);
  for (int rank = 0; rank < 3; ++rank) makers[rank].calls(5, "1", {}).call("1", open_call());
  EXPECT_THAT(first_text(makers), HasSubstr("rank 3 (nodeB, pid 4714) may be missing from "
                                            "all_reduce #11 of group 'dp#1'\n     its dump was "
                                            "made before it came there"));
  // A broadcast ends at its root whoever else has come, so it proves nothing.
  makers = after_steps(5);
  for (int rank = 0; rank < 3; ++rank) {
    makers[rank].call("1", {.op = "broadcast", .root = 0});
    makers[rank].call("1", open_call());
  }
  EXPECT_THAT(first_text(makers), HasSubstr("missing: rank 3 (nodeB, pid 4714) never entered"));
}

TEST(TraceMissing, TheCountsTellWhatTheRingHasLost) {
  std::vector<DumpMaker> makers = waiting_for_three();
  for (DumpMaker& maker : makers) maker.calls(20, "0", {}).keep_last(10);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].title,
            "rank 3 (nodeB, pid 4714) never entered collective #412 of group "
            "'dp#1'");
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("for a time that is not known")));
}

TEST(TraceMissing, CountsAreEnoughWithoutOperations) {
  std::vector<DumpMaker> makers = waiting_for_three();
  for (DumpMaker& maker : makers) maker.without("entries");
  EXPECT_THAT(first_text(makers), HasSubstr("rank 3 (nodeB, pid 4714) never entered collective "
                                            "#412 of group 'dp#1'\n     its dump was made without "
                                            "operations\n"));
}

TEST(TraceMissing, GroupsWhoseMembersNobodyTells) {
  std::vector<DumpMaker> makers = waiting_for_three();
  for (DumpMaker& maker : makers) maker.without_members("1");
  EXPECT_THAT(first_text(makers), HasSubstr("rank 3 (nodeB, pid 4714) never entered"));
}

TEST(TraceMissing, OperationsThatTimedOutCount) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (int rank = 0; rank < 3; ++rank) {
    MadeCall call = open_call();
    call.state = "failed";
    makers[rank].call("1", call).aborted("1", "all_reduce #3 timed out");
  }
  const std::string text = first_text(makers);
  EXPECT_THAT(text, HasSubstr("rank 3 (nodeB, pid 4714) never entered all_reduce #3"));
  EXPECT_THAT(text, HasSubstr("group 'dp#1' was given up: all_reduce #3 timed out"));
}

}  // namespace
}  // namespace hymn::test
