// What `hymn trace` says of jobs of which the fault is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/trace_cases.hpp"

namespace hymn::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using trace::Finding;
using trace::FindingKind;

TEST(TraceChain, LeadsToTheOneAtItsEnd) {
  std::vector<DumpMaker> makers = two_groups();
  makers[0].call("1", open_call("all_reduce", 10));
  makers[1].call("1", open_call("all_reduce", 10));
  makers[2].call("2", open_call("broadcast", 20));
  EXPECT_EQ(verdict_text(makers),
            "1. missing: rank 3 (nodeB, pid 4714) never entered broadcast #1 of group 'tp#2'\n"
            "     it has made no call on any group\n"
            "     rank 2 has waited 30.0 s at solver.cpp:20\n"
            "     next: see what keeps rank 3: gdb -p 4714 on nodeB\n"
            "2. chain: in the end all wait for rank 3 (nodeB, pid 4714)\n"
            "     ranks 0-1 wait in all_reduce #1 of group 'dp#1' at solver.cpp:10 for rank 2\n"
            "     rank 2 waits in broadcast #1 of group 'tp#2' at solver.cpp:20 for rank 3\n"
            "     rank 3: it has made no call on any group\n");
}

TEST(TraceChain, GoesThroughMessages) {
  std::vector<DumpMaker> makers = two_groups();
  makers[0].call("1", open_call());
  makers[1].call("1", open_call());
  makers[2].call("0", recv_from(3, "scheduled"));
  const std::vector<Finding> findings = findings_of(makers);
  EXPECT_THAT(kinds_of(findings), ElementsAre(FindingKind::p2p, FindingKind::chain));
  EXPECT_THAT(findings[1].culprits, ElementsAre(3));
  EXPECT_THAT(findings[1].details, Contains("rank 2 waits in recv 2<-3 (#1) of group 'default_pg' "
                                            "at solver.cpp:88 for rank 3"));
}

TEST(TraceChain, GoesThroughProbes) {
  std::vector<DumpMaker> makers = two_groups();
  makers[0].call("1", open_call());
  makers[1].call("1", open_call());
  MadeCall probe = recv_from(3, "scheduled");
  probe.op = "probe";
  makers[2].call("0", probe);
  const std::vector<Finding> findings = findings_of(makers);
  EXPECT_THAT(kinds_of(findings), ElementsAre(FindingKind::p2p, FindingKind::chain));
  EXPECT_THAT(findings[1].culprits, ElementsAre(3));
  EXPECT_THAT(findings[1].details, Contains("rank 2 waits in probe 2<-3 (#1) of group 'default_pg' "
                                            "at solver.cpp:88 for rank 3"));
}

TEST(TraceChain, ALongOneIsToldWhole) {
  std::vector<DumpMaker> makers = make_dumps(6);
  for (int rank = 0; rank < 5; ++rank) {
    const std::string uid = std::to_string(rank + 1);
    makers[rank].group(uid, "pair", {rank, rank + 1}).call(uid, open_call());
    makers[rank + 1].group(uid, "pair", {rank, rank + 1});
  }
  const std::vector<Finding> findings = findings_of(makers);
  EXPECT_THAT(kinds_of(findings), ElementsAre(FindingKind::missing, FindingKind::chain));
  EXPECT_THAT(findings[0].culprits, ElementsAre(5));
  EXPECT_THAT(findings[1].waiting, ElementsAre(0, 1, 2, 3, 4));
}

TEST(TraceChain, EndsAtAnOperationThatHangs) {
  std::vector<DumpMaker> makers = after_steps(1);
  for (DumpMaker& maker : makers) maker.call("1", {.op = "broadcast", .root = 0});
  for (const int rank : {0, 1}) makers[rank].call("1", open_call());
  for (const int rank : {2, 3}) {
    makers[rank] = after_steps(1)[rank];
    MadeCall call = open_call("broadcast", 50);
    call.root = 0;
    makers[rank].call("1", call);
  }
  const std::vector<Finding> findings = findings_of(makers);
  EXPECT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck, FindingKind::chain));
  EXPECT_EQ(findings[1].title, "everything waits for broadcast #2 of group 'dp#1'");
}

TEST(TraceChain, PassesOverAnOperationThatOnlyWaitsToBeMovedOn) {
  std::vector<DumpMaker> makers = make_dumps(3);
  for (const int rank : {0, 1}) makers[rank].group("1", "dp", {0, 1}).call("1", open_call());
  makers[0].call("1", open_call("barrier"));
  makers[1].with("in_call", {{"name", "MPI_Recv"}, {"since_ns", DumpMaker::time_ns}});
  for (const int rank : {0, 2}) makers[rank].group("2", "tp", {0, 2});
  makers[2].call("2", open_call("all_gather"));
  const std::vector<Finding> findings = findings_of(makers);
  EXPECT_THAT(findings[0].kind, FindingKind::missing);
  EXPECT_THAT(kinds_of(findings), Not(Contains(FindingKind::stuck)));
  EXPECT_THAT(findings.back().details,
              Contains("rank 0 waits in barrier #2 of group 'dp#1' at solver.cpp:91 for rank 1"));
}

TEST(TraceCycle, TwoGroupsInOppositeOrder) {
  std::vector<DumpMaker> makers = make_dumps(2);
  for (DumpMaker& maker : makers) maker.group("1", "dp", {0, 1}).group("2", "tp", {0, 1});
  makers[0].call("1", open_call("all_reduce", 10));
  makers[1].call("2", open_call("all_gather", 20));
  EXPECT_EQ(verdict_text(makers),
            "1. cycle: deadlock: ranks 0-1 wait for each other\n"
            "     rank 0 waits in all_reduce #1 of group 'dp#1' at solver.cpp:10 for rank 1\n"
            "     rank 1 waits in all_gather #1 of group 'tp#2' at solver.cpp:20 for rank 0\n"
            "     they have waited 30.0 s\n"
            "     next: all ranks have to make the calls on their groups in the same order\n");
}

TEST(TraceCycle, TwoSendsToEachOther) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].call("0", send_to(1, "scheduled"));
  makers[1].call("0", send_to(0, "scheduled"));
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::cycle));
  EXPECT_THAT(findings[0].details[0], HasSubstr("rank 0 waits in send 0->1 (#1)"));
  EXPECT_THAT(findings[0].details[1], HasSubstr("rank 1 waits in send 1->0 (#1)"));
  EXPECT_THAT(findings[0].advice, HasSubstr("let one side receive first"));
  EXPECT_EQ(findings[0].sides.size(), 2u);
}

TEST(TraceCycle, OthersThatWaitForItFollowAsAChain) {
  std::vector<DumpMaker> makers = make_dumps(3);
  for (const int rank : {0, 1}) makers[rank].group("1", "dp", {0, 1}).group("2", "tp", {0, 1});
  makers[0].call("1", open_call());
  makers[1].call("2", open_call());
  makers[2].call("0", open_call("barrier"));
  const std::vector<Finding> findings = findings_of(makers);
  EXPECT_EQ(findings[0].kind, FindingKind::cycle);
  EXPECT_THAT(findings[0].culprits, ElementsAre(0, 1));
  EXPECT_THAT(kinds_of(findings), Not(Contains(FindingKind::missing)));
}

TEST(TraceCycle, AThirdLinkIsFound) {
  std::vector<DumpMaker> makers = make_dumps(3);
  for (int rank = 0; rank < 3; ++rank)
    for (const int of : {rank, (rank + 2) % 3})
      makers[rank].group(std::to_string(of + 1), "ring", {of, (of + 1) % 3});
  for (int rank = 0; rank < 3; ++rank) makers[rank].call(std::to_string(rank + 1), open_call());
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::cycle));
  EXPECT_EQ(findings[0].details.size(), 4u);
}

TEST(TraceMismatch, BothSidesAreShown) {
  std::vector<DumpMaker> makers = after_steps(6, 3);
  MadeCall reduce = open_call("all_reduce", 10);
  reduce.file = "/src/a.cpp";
  MadeCall broadcast = open_call("broadcast", 33);
  broadcast.file = "/src/b.cpp";
  broadcast.root = 0;
  makers[0].call("1", reduce);
  makers[1].call("1", broadcast);
  makers[2].call("1", reduce);
  EXPECT_EQ(verdict_text(makers),
            "1. mismatch: the ranks of group 'dp#1' call different collectives as #7: rank 1 "
            "differs\n"
            "     ranks 0, 2 call all_reduce of 1024 float32 with sum at a.cpp:10\n"
            "     rank 1 calls broadcast of 1024 float32 from root 0 at b.cpp:33\n"
            "     ranks 0-2 have waited 30.0 s at a.cpp:10\n"
            "     next: compare these calls: operation, number of elements, type, reduction and "
            "root have to be the same on all ranks\n");
}

TEST(TraceMismatch, EveryPartOfTheCallCounts) {
  const MadeCall usual = open_call("reduce");
  std::vector<MadeCall> others(5, usual);
  others[0].elements = 1025;
  others[1].dtype = "float64";
  others[2].reduce_op = "max";
  others[3].root = 1;
  others[4].op = "broadcast";
  for (const std::string signature : {"made", ""})
    for (MadeCall other : others) {
      MadeCall mine = usual;
      mine.signature = other.signature = signature;
      std::vector<DumpMaker> makers = after_steps(1, 2);
      makers[0].call("1", mine);
      makers[1].call("1", other);
      EXPECT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::mismatch));
    }
}

TEST(TraceMismatch, TheSignatureDecides) {
  MadeCall root = open_call("gather");
  root.signature = "5f0c";
  root.elements = 4096;
  MadeCall other = root;
  other.elements = 1024;
  std::vector<DumpMaker> makers = after_steps(1, 2);
  makers[0].call("1", root);
  makers[1].call("1", other);
  EXPECT_THAT(kinds_of(findings_of(makers)), Not(Contains(FindingKind::mismatch)));
  other = root;
  other.signature = "5f0d";
  makers = after_steps(1, 2);
  makers[0].call("1", root);
  makers[1].call("1", other);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::mismatch));
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("in something that the dumps do not tell")));
}

TEST(TraceMismatch, IsFoundAlsoWhereTheCallsHaveCompleted) {
  std::vector<DumpMaker> makers = after_steps(1, 2);
  makers[0].call("1", {.elements = 4}).calls(3, "1", {});
  makers[1].call("1", {.elements = 8}).calls(3, "1", {});
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::mismatch));
  EXPECT_EQ(findings[0].sequence, 2);
}

TEST(TraceOrder, TwoCallsTheOtherWayRound) {
  std::vector<DumpMaker> makers = after_steps(4, 3);
  for (const int rank : {0, 1})
    makers[rank].call("1", open_call("all_reduce", 10)).call("1", open_call("barrier", 11));
  makers[2].call("1", open_call("barrier", 20)).call("1", open_call("all_reduce", 21));
  const std::string text = verdict_text(makers);
  EXPECT_THAT(text, StartsWith("1. order: all_reduce #5 and #6 of group 'dp#1' are called in the "
                               "opposite order on rank 2\n"
                               "     ranks 0-1 call all_reduce of 1024 float32 with sum at "
                               "solver.cpp:10\n"
                               "     rank 2 calls barrier at solver.cpp:20\n"));
  EXPECT_THAT(text, HasSubstr("make the two calls in the same order"));
  EXPECT_THAT(text, Not(HasSubstr("\n2. ")));
}

}  // namespace
}  // namespace hymn::test
