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
    const CallRing& ring = detail::WorldState::of(world).ring();
    const auto last = ring.read(ring.next_id() - 1);
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->state, CallState::failed);
    EXPECT_EQ(last->type, OpType::all_reduce);
    EXPECT_EQ(last->input.count, world.rank() == 0 ? 19'999u : 20'000u);
  });
}

}  // namespace
}  // namespace hymn::test
