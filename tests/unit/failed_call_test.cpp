// What is left of calls that fail while they are started.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "hymn/hymn.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

/// A call in which one rank asks for less than the other: whoever comes second finds it out, when
/// it shows its own part.
void call_apart(World& world, ProcessGroup& group) {
  std::vector<float> values(20'000);
  EXPECT_THROW(
      group.all_reduce(BufferView(values).slice(0, values.size() - (world.rank() == 0 ? 1 : 0))),
      Error);
}

TEST(FailedCall, IsRecorded) {
  run_ranks(2, [](World& world) {
    ProcessGroup group = world.new_group({0, 1}, {.path = "shm", .algo = "all_reduce_two_shot"});
    call_apart(world, group);
    const CallRing& ring = detail::WorldState::of(world).context().ring();
    const auto last = ring.read(ring.next_id() - 1);
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->state, CallState::failed);
    EXPECT_EQ(last->type, OpType::all_reduce);
    EXPECT_EQ(last->input.count, world.rank() == 0 ? 19'999u : 20'000u);
  });
}

/// Whether others see this rank meet them before a call.
bool is_seen_meeting(const ProcessGroup& group) {
  const detail::GroupRecord& record = detail::need(group).record();
  return record.met() > record.collective_sequence();
}

// Its number is asked for again: nobody must take this rank for one that waits for others.
TEST(FailedCall, LeavesNoMeetingToBeSeen) {
  run_ranks(2,
            [](World& world) {
              ProcessGroup group = world.new_group({0, 1}, {.nan_check = true});
              std::vector<float> good(3, 1.0F);
              std::vector<float> bad(3, std::numeric_limits<float>::quiet_NaN());
              // The first has met its like when something is found to be wrong with the second.
              const std::vector<Request> requests = {Request::all_reduce(good, good),
                                                     Request::all_reduce(bad, bad)};
              EXPECT_THROW((void)group.start_coalesced(requests), UsageError);
              EXPECT_FALSE(is_seen_meeting(group));
              EXPECT_THROW(group.all_reduce(BufferView(good).slice(0, world.rank() == 0 ? 2 : 3)),
                           UsageError);
              EXPECT_FALSE(is_seen_meeting(group));
              group.all_reduce(good);
              EXPECT_EQ(good.front(), 2.0F);
              // Messages have no number that others could meet for.
              const std::uint64_t met = detail::need(group).record().met();
              EXPECT_THROW(group.send(bad, 1 - world.rank()), UsageError);
              EXPECT_EQ(detail::need(group).record().met(), met);
            },
            {.checks = CheckLevel::detail});
}

// Two ranks may give a group up at the same time; each then hears the other's reason as well.
TEST(FailedGroup, KeepsTheFirstReason) {
  run_ranks(1, [](World& world) {
    detail::GroupHealth& group = detail::need(world.group()).health();
    group.abort_here({"the first", {3}});
    group.abort_here({"the second", {4}});
    EXPECT_EQ(group.abort_failure().reason, "the first");
    EXPECT_EQ(group.abort_failure().missing, std::vector<int>{3});
  });
}

// Members that have made it already may give it up before this one has.
TEST(FailedGroup, MayBeGivenUpBeforeItIsMadeHere) {
  run_ranks(1, [](World& world) {
    const std::uint64_t next = world.new_group({0}).membership().uid + 1;
    detail::WorldState::of(world).context().peers.agent()->receive(
        control::AbortGroup{next, "too early", {}});
    ProcessGroup group = world.new_group({0});
    ASSERT_EQ(group.membership().uid, next);
    EXPECT_TRUE(group.is_aborted());
    EXPECT_THROW(group.barrier(), AbortedError);
  });
}

// Otherwise its goodbye would blame whom it has long since gone on without.
TEST(FailureSeen, IsOfNoAccountOnceACallHasCompletedSince) {
  run_ranks(1, [](World& world) {
    detail::WorldFailures& failures = detail::WorldState::of(world).context().failures;
    ProcessGroup group = world.new_group({0});
    group.barrier();
    failures.note({"the first", {3}});
    EXPECT_EQ(failures.seen().missing, std::vector<int>{3});
    failures.note({"what follows from it", {4}});
    EXPECT_EQ(failures.seen().missing, std::vector<int>{3});
    group.barrier();
    EXPECT_TRUE(failures.seen().missing.empty());
    EXPECT_TRUE(failures.cause().missing.empty());
    failures.note({"another", {5}});
    EXPECT_EQ(failures.seen().missing, std::vector<int>{5});
  });
}

// Nobody knows then whether it has gone on: who leaves by an error is taken to leave because of it.
TEST(FailureSeen, OfARankThatRecordsNothingIsWhyItLeaves) {
  const Variable none("HYMN_RECORDER_SIZE", "0");
  run_ranks(1, [](World& world) {
    detail::WorldFailures& failures = detail::WorldState::of(world).context().failures;
    EXPECT_TRUE(failures.cause().missing.empty());
    failures.note({"the first", {3}});
    world.group().barrier();
    failures.note({"another", {4}});
    EXPECT_TRUE(failures.seen().missing.empty());
    EXPECT_EQ(failures.cause().missing, std::vector<int>{3});
    failures.forget();
    EXPECT_TRUE(failures.cause().missing.empty());
  });
}

TEST(FailureSeen, OfAMessageIsOfNoAccountEither) {
  run_ranks(1, [](World& world) {
    detail::WorldFailures& failures = detail::WorldState::of(world).context().failures;
    failures.note_message({"a message", {2}});
    EXPECT_EQ(failures.seen().missing, std::vector<int>{2});
    world.group().barrier();
    EXPECT_TRUE(failures.seen().missing.empty());
  });
}

}  // namespace
}  // namespace hymn::test
