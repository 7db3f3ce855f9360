// What `hymn trace` says of messages, deaths, operations that hang, slow ranks and healthy jobs.
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
using trace::Finding;
using trace::FindingKind;

TEST(TraceP2p, ASendThatNobodyReceives) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].calls(2, "0", send_to(1)).call("0", send_to(1, "scheduled"));
  makers[1].calls(2, "0", recv_from(0));
  EXPECT_EQ(verdict_text(makers),
            "1. p2p: send 0->1 (#3) of group 'default_pg' has no partner: rank 1 (nodeA, pid 4712) "
            "does not receive it\n"
            "     rank 1: last seen leaving recv 1<-0 (#2) of group 'default_pg' at solver.cpp:88, "
            "31.0 s before its dump\n"
            "     rank 0 has made 3 sends to rank 1, which has made 2 receives from it\n"
            "     rank 0 has waited 30.0 s at solver.cpp:88\n"
            "     next: every send needs a receive on the other rank, with the same tag and "
            "group\n");
}

TEST(TraceP2p, AReceiveThatNobodySendsTo) {
  std::vector<DumpMaker> makers = make_dumps(3);
  makers[1].call("0", recv_from(2, "scheduled"));
  makers[2].call("0", send_to(0));
  makers[0].call("0", recv_from(2));
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::p2p));
  EXPECT_THAT(findings[0].title, HasSubstr("recv 1<-2 (#1) of group 'default_pg' has no partner: "
                                           "rank 2 (nodeB, pid 4713) does not send it"));
  EXPECT_THAT(findings[0].details, Contains("rank 2 has made 0 sends to rank 1, which has made 1 "
                                            "receives from it"));
  EXPECT_THAT(findings[0].culprits, ElementsAre(2));
}

TEST(TraceP2p, AReceiveFromAny) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].call("0", recv_from(-1, "scheduled"));
  std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::p2p));
  EXPECT_EQ(findings[0].title, "nobody sends to recv 0<-any (#1) of group 'default_pg'");
  // It is a partner for whoever sends.
  makers[1].call("0", send_to(0, "scheduled"));
  findings = findings_of(makers);
  EXPECT_THAT(findings, IsEmpty());
}

TEST(TraceP2p, BothAreThereAndDoNotMeet) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].call("0", send_to(1, "scheduled"));
  makers[1].call("0", recv_from(0, "scheduled"));
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::p2p));
  EXPECT_THAT(findings[0].title, HasSubstr("do not come together"));
  EXPECT_THAT(findings[0].advice, HasSubstr("compare their tags"));
}

TEST(TraceP2p, WhatWasSentAndCountedIsNotMissing) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].call("0", send_to(1));
  makers[1].call("0", recv_from(0, "scheduled"));
  EXPECT_THAT(findings_of(makers), IsEmpty());
  // Where the ring has overwritten some, only what is in flight tells.
  makers[0].call("0", send_to(1)).keep_last(1);
  EXPECT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::p2p));
}

TEST(TraceP2p, WhatTheReceiverHasTakenIsOnItsWay) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].call("0", send_to(1, "scheduled"));
  makers[1].call("0", recv_from(0));
  EXPECT_THAT(findings_of(makers), IsEmpty());
}

TEST(TraceP2p, ABatchMayHoldThePartner) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].call("0", send_to(1, "scheduled"));
  MadeCall batch = open_call("batch");
  batch.signature = "";
  nlohmann::json json = makers[1].call("0", batch).json();
  json["pg_config"]["0"]["collective_seq"] = 0;
  json["entries"][0]["is_p2p"] = true;
  json["entries"][0]["p2p_seq_id"] = 1;
  json["entries"][0]["collective_seq_id"] = 0;
  makers[1].with("pg_config", json["pg_config"]).with("entries", json["entries"]);
  EXPECT_THAT(findings_of(makers), IsEmpty());
}

TEST(TraceDeath, InsideAnOperation) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (DumpMaker& maker : makers) maker.call("1", open_call());
  makers[0].peer(2, "dead", "killed by signal 11");
  makers[1].peer(2, "stalled").peer(3, "alive");
  makers[2].with("written_by", 0);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::death));
  EXPECT_EQ(findings[0].title, "rank 2 (nodeB, pid 4713) died: killed by signal 11");
  EXPECT_EQ(findings[0].details[0], "inside all_reduce #3 of group 'dp#1' at solver.cpp:91");
  EXPECT_THAT(findings[0].waiting, ElementsAre(0, 1, 3));
}

TEST(TraceDeath, WhoseMemoryOthersHadToReadHasDied) {
  std::vector<DumpMaker> makers = after_steps(2);
  makers[1].with("written_by", 0);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::death));
  EXPECT_THAT(findings[0].culprits, ElementsAre(1));
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("nobody waits for it")));
}

TEST(TraceDeath, ARankThatWasAloneInAnOperation) {
  std::vector<DumpMaker> makers = after_steps(2);
  makers[1].with("written_by", 0).call("1", open_call());
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_EQ(findings[0].kind, FindingKind::death);
  EXPECT_THAT(findings[0].waiting, IsEmpty());
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("nobody waits for it")));
}

TEST(TraceDeath, AWholeHostIsOneFinding) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (const int rank : {0, 1}) makers[rank].call("1", open_call());
  for (const int rank : {2, 3}) makers[0].peer(rank, "lost", "no answer for 10 s");
  makers.erase(makers.begin() + 2, makers.end());
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::death));
  EXPECT_EQ(findings[0].title, "ranks 2-3 (nodeB) cannot be reached: no answer for 10 s");
  EXPECT_THAT(findings[0].details, Contains("ranks 0-1 have waited 30.0 s at solver.cpp:91 in "
                                            "all_reduce #3 of group 'dp#1'"));
}

TEST(TraceStuck, AllHaveEnteredAndNobodyLeaves) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (DumpMaker& maker : makers) maker.call("1", open_call());
  std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck));
  EXPECT_EQ(findings[0].title,
            "all_reduce #3 of group 'dp#1' does not complete, though all members have entered it");
  makers[1].peer(3, "stalled", "stopped by a signal");
  findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck));
  EXPECT_EQ(findings[0].title,
            "rank 3 (nodeB, pid 4714) is stopped in or after all_reduce #3 of group 'dp#1'");
  EXPECT_THAT(findings[0].culprits, ElementsAre(3));
}

TEST(TraceStuck, WhoHasStartedItAndDoesNotMoveItOn) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (DumpMaker& maker : makers) {
    MadeCall call = open_call();
    call.waited_for = &maker != &makers[1];
    call.undriven = &maker == &makers[1];
    maker.call("1", call);
  }
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck));
  EXPECT_THAT(findings[0].title,
              HasSubstr("started all_reduce #3 of group 'dp#1', and does not progress it"));
  EXPECT_THAT(findings[0].culprits, ElementsAre(1));
  EXPECT_THAT(findings[0].advice, HasSubstr("HYMN_PROGRESS_THREAD"));
  EXPECT_THAT(findings[0].details, Contains(HasSubstr("and is not waiting in any call")));
}

TEST(TraceStuck, WhoMovesItOnWithoutWaitingIsNotToBlame) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (DumpMaker& maker : makers) {
    MadeCall call = open_call();
    call.waited_for = &maker != &makers[1];
    maker.call("1", call);
  }
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck));
  EXPECT_THAT(findings[0].title,
              HasSubstr("does not complete, though all members have entered it"));
  EXPECT_THAT(findings[0].culprits, testing::IsEmpty());
}

TEST(TraceStuck, WhoHasLeftItHadEnteredIt) {
  std::vector<DumpMaker> makers = after_steps(2);
  makers[0].call("1", {.op = "broadcast", .root = 0});
  MadeCall call = open_call("broadcast");
  call.root = 0;
  for (const int rank : {1, 2, 3}) makers[rank].call("1", call);
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck));
  EXPECT_THAT(findings[0].waiting, ElementsAre(1, 2, 3));
}

TEST(TraceStuck, OneOfAGroupIsTold) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (DumpMaker& maker : makers) maker.call("1", open_call()).call("1", open_call());
  EXPECT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::stuck));
}

TEST(TraceStuck, AnOperationThatFailed) {
  std::vector<DumpMaker> makers = after_steps(2);
  for (DumpMaker& maker : makers) {
    MadeCall call = open_call();
    call.state = "failed";
    maker.call("1", call).aborted("1", "rank 0 gave it up");
  }
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::stuck));
  EXPECT_EQ(findings[0].title, "all_reduce #3 of group 'dp#1' failed on ranks 0-3");
  EXPECT_THAT(findings[0].details, Contains("the group was given up: rank 0 gave it up"));
}

TEST(TraceSlow, WhoWaitsLeastComesLast) {
  std::vector<DumpMaker> makers = after_steps(0);
  for (int i = 0; i < 20; ++i)
    for (int rank = 0; rank < 4; ++rank)
      makers[rank].call("1", {.duration_ms = rank == 2 && i > 4 ? 0.01 : 3.0});
  for (DumpMaker& maker : makers) maker.with("timing", true).with("trigger", "call");
  const std::vector<Finding> findings = findings_of(makers);
  ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::slow));
  EXPECT_FALSE(findings[0].is_fault);
  EXPECT_EQ(findings[0].title,
            "rank 2 (nodeB, pid 4713) came last to 15 of the last 20 operations of group 'dp#1'");
}

TEST(TraceSlow, NobodyIsSlowWhereTheyTakeTurns) {
  std::vector<DumpMaker> makers = after_steps(0);
  for (int i = 0; i < 40; ++i)
    for (int rank = 0; rank < 4; ++rank)
      makers[rank].call("1", {.duration_ms = rank == i % 4 ? 0.01 : 3.0});
  for (DumpMaker& maker : makers) maker.with("timing", true).with("trigger", "call");
  EXPECT_THAT(findings_of(makers), IsEmpty());
}

TEST(TraceSlow, AMomentLaterIsNotSlow) {
  for (const auto& [shortest, others] : {std::pair{0.01, 0.05}, {8.0, 10.0}}) {
    std::vector<DumpMaker> makers = after_steps(0);
    for (int rank = 0; rank < 4; ++rank)
      makers[rank].calls(20, "1", {.duration_ms = rank == 2 ? shortest : others});
    for (DumpMaker& maker : makers) maker.with("timing", true).with("trigger", "call");
    EXPECT_THAT(findings_of(makers), IsEmpty()) << shortest;
  }
}

TEST(TraceNothing, AJobOnItsWay) {
  std::vector<DumpMaker> makers = after_steps(10);
  MadeCall call = open_call();
  call.age = 0.2;
  for (const int rank : {0, 1}) makers[rank].call("1", call);
  for (DumpMaker& maker : makers) maker.with("trigger", "pipe").with("reason", "asked for");
  const trace::Job job = job_of(makers);
  EXPECT_EQ(trace::report_text(job, trace::judge(job), {}),
            "no fault found\n"
            "\n"
            "looked at: dumps of 4 of 4 ranks of solver (job 9f3c), 2 hosts\n"
            "           42 operations in 2 groups, dumped 2026-09-21 14:13:20 UTC\n"
            "           on the way: 1 operation, for 0.2 s at most\n"
            "  reasons: ranks 0-3: pipe: asked for\n");
  // A second is long for those who wait.
  call.age = 1.5;
  makers[2].call("1", call);
  EXPECT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::missing));
}

TEST(TraceReport, TellsWhatWasLookedAt) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers.erase(makers.begin());
  makers[0].with("reason", "a");
  makers[1].without("entries");
  const trace::Job job = job_of(makers);
  const std::string text =
      trace::report_text(job, trace::judge(job), {{"dump9", "it is empty", true}});
  EXPECT_THAT(text, HasSubstr("looked at: dumps of 3 of 4 ranks of solver (job 9f3c), 2 hosts\n"));
  EXPECT_THAT(text, HasSubstr("           no dump of rank 0\n"));
  EXPECT_THAT(text, HasSubstr("           no operations in the dumps of rank 2: only their "));
  EXPECT_THAT(text, HasSubstr("  reasons: rank 1: timeout: a\n"
                              "           ranks 2-3: timeout: all_reduce #412"));
  EXPECT_THAT(text, HasSubstr("note: dump9 is not used: it is empty\n"));
}

TEST(TraceLast, PutsTheRanksBesideEachOther) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers[3].call("0", send_to(1));
  const std::string text = trace::last_text(job_of(makers), 2);
  EXPECT_EQ(text,
            "\ngroup 'dp#1' (ranks 0-3)\n"
            "      #410  all_reduce of 1024 float32 with sum       completed 0-3  "
            "solver.cpp:88\n"
            "      #411  all_reduce of 1024 float32 with sum       completed 0-3  solver.cpp:88\n"
            "      #412  all_reduce of 1024 float32 with sum       in flight 0-2; not entered 3  "
            "solver.cpp:91\n"
            "\nsends and receives\n"
            "  rank 3: send 3->1 (#1) in group 'default_pg', send of 1024 float32: completed at "
            "solver.cpp:88\n");
}

// --- Messages that do not fit

TEST(TraceMessages, WithDifferentTagsAreToldAsThat) {
  std::vector<DumpMaker> makers = make_dumps(2);
  MadeCall send = send_to(1, "scheduled");
  MadeCall recv = recv_from(0, "scheduled");
  send.tag = 3;
  recv.tag = 5;
  makers[0].call("0", send);
  makers[1].call("0", recv);
  EXPECT_EQ(verdict_text(makers),
            "1. p2p: rank 0 sends with tag 3, and rank 1 receives with tag 5, in group "
            "'default_pg'\n"
            "     rank 0 has waited 30.0 s in send of 1024 float32 with tag 3 at solver.cpp:88\n"
            "     rank 1 has waited 30.0 s in recv of 1024 float32 with tag 5 at solver.cpp:88\n"
            "     next: give both calls the same tag, or make the call that is missing on one "
            "side\n");
  // The same where the message has left its sender.
  send.state = "completed";
  makers = make_dumps(2);
  makers[0].call("0", send);
  makers[1].call("0", recv);
  EXPECT_THAT(verdict_text(makers), HasSubstr("rank 0 sends with tag 3, and rank 1 receives with "
                                              "tag 5"));
  send.state = "scheduled";
  recv.tag = 3;
  makers = make_dumps(2);
  makers[0].call("0", send);
  makers[1].call("0", recv);
  EXPECT_THAT(verdict_text(makers), HasSubstr("do not come together"));
}

TEST(TraceMessages, ThatAreTooLongAreToldAsThat) {
  std::vector<DumpMaker> makers = make_dumps(2);
  MadeCall send = send_to(1);
  MadeCall recv = recv_from(0, "failed");
  send.tag = recv.tag = 3;
  recv.elements = 10;
  MadeCall other = send;  // taken by nobody, and of another tag
  other.tag = 4;
  other.elements = 5;
  makers[0].call("0", other).call("0", send);
  makers[1].call("0", recv);
  EXPECT_EQ(
      first_text(makers).substr(0, 200).find("1. p2p: send 0->1 (#2) of group 'default_pg' is "
                                             "longer than what it is received into: 1024 "
                                             "float32 into 10\n"),
      0u)
      << first_text(makers);
  recv.elements = 2048;
  makers = make_dumps(2);
  makers[0].call("0", send);
  makers[1].call("0", recv);
  EXPECT_THAT(verdict_text(makers), Not(HasSubstr("longer than")));
}

TEST(TraceMessages, ThatFailWithoutADumpOfTheOtherSideBlameNobody) {
  std::vector<DumpMaker> makers = make_dumps(2);
  MadeCall recv = recv_from(0, "failed");
  recv.tag = 3;
  makers[1]
      .call("0", recv)
      .with("trigger", "error")
      .with("reason", "rank 1: recv #1: group rank 0 sent 400 bytes to a buffer of 40 bytes");
  EXPECT_THAT(verdict_text({makers[1]}),
              HasSubstr("1. p2p: recv 1<-0 (#1) of group 'default_pg' has failed on rank 1\n"
                        "     rank 1: recv #1: group rank 0 sent 400 bytes to a buffer of 40 "
                        "bytes\n"));
}

// --- Deaths

TEST(TraceDeath, SaysHowInItsTitle) {
  for (const auto& [detail, words] : std::vector<std::pair<std::string, std::string>>{
           {"its process was killed by signal 9 (SIGKILL)", "was killed by signal 9 (SIGKILL)"},
           {"its process has exited with status 7 without ending its world",
            "has exited with status 7 without ending its world"}}) {
    std::vector<DumpMaker> makers = waiting_for_three();
    makers.pop_back();
    makers[0].peer(3, "dead", detail);
    const std::vector<Finding> findings = findings_of(makers);
    ASSERT_THAT(kinds_of(findings), ElementsAre(FindingKind::death));
    EXPECT_EQ(findings[0].title, "rank 3 (nodeB, pid 4714) " + words);
  }
}

// Rank 2 died; rank 1 was told so, in another group, and left; rank 0 still waits for it there.
TEST(TraceDeath, WhoWasToldOfItAndLeftIsNoSecondFinding) {
  std::vector<DumpMaker> makers = make_dumps(3);
  for (const int rank : {1, 2}) makers[rank].group("1", "dp", {1, 2});
  for (const int rank : {0, 1}) makers[rank].group("2", "tp", {0, 1});
  makers[0].call("2", open_call());
  makers[1].call("1", open_call());
  makers[0].peer(2, "dead", "its process was killed by signal 9 (SIGKILL)");
  makers[0].peer(1, "left", "it has ended its world because of an error: a member is gone");
  const std::vector<FindingKind> kinds = kinds_of(findings_of(makers));
  EXPECT_EQ(kinds.at(0), FindingKind::death);
  EXPECT_THAT(kinds, Not(Contains(FindingKind::missing)));
}

TEST(TraceMissing, WhoLeftBecauseOfAnErrorIsTheCauseWhereThereIsNoOther) {
  std::vector<DumpMaker> makers = waiting_for_three();
  makers.pop_back();
  makers[0].peer(3, "left", "it has ended its world because of an error");
  EXPECT_THAT(kinds_of(findings_of(makers)), ElementsAre(FindingKind::missing));
}

}  // namespace
}  // namespace hymn::test
