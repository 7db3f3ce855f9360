// What is left of calls that fail while they are started.
#include <gtest/gtest.h>

#include <vector>

#include "hymn/hymn.hpp"
#include "runtime/world/world_state.hpp"

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

// Two ranks may give a group up at the same time; each then hears the other's reason as well.
TEST(FailedGroup, KeepsTheFirstReason) {
  run_ranks(1, [](World& world) {
    detail::GroupHealth& group = detail::GroupState::need_of(world.group()).health();
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
    failures.note({"another", {5}});
    EXPECT_EQ(failures.seen().missing, std::vector<int>{5});
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
