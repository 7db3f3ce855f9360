// Once a rank hears that a group was given up, nothing touches the buffers of what it had in flight
// there, on all roads that promise that (docs/errors.md); and what had completed has completed.
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

bool promises_buffers(std::string_view path) {
  return path == "threads" || path == "shm" || path == "hierarchical" || path == "exchange";
}

/// What a program does with its buffers once they are its own again: here all of it is overwritten.
class Reused {
 public:
  void take(BufferView view) {
    if (view.count == 0) return;
    std::memset(view.data, mark, view.bytes());
    views_.push_back(view);
  }
  void expect_left_alone() const {
    for (const BufferView& view : views_) {
      const auto* const bytes = static_cast<const unsigned char*>(view.data);
      std::size_t same = 0;
      while (same < view.bytes() && bytes[same] == mark) ++same;
      EXPECT_EQ(same, view.bytes()) << "written to after the group was given up";
    }
  }

 private:
  static constexpr unsigned char mark = 0x5e;
  std::vector<BufferView> views_;
};

/// The ranks hear of it in four ways: by what they call themselves, by waiting for a work, by
/// testing it, and by a question.
void hear_that_it_is_given_up(ProcessGroup& group, Work& last) {
  if (group.rank() == 0) return group.abort("enough is enough");
  try {
    if (group.rank() % 3 == 1) last.wait();
  } catch (const Error&) {
    return;
  }
  while (group.rank() % 3 == 2 && !last.test()) std::this_thread::yield();
  if (last.error() != nullptr) return;
  // This rank's part of the work may have been done before.
  EXPECT_TRUE(is_aborted_within(group, at_once));
}

/// All start a call that may complete at rank 0's next step, and all but the last rank another one
/// behind it. Rank 0 takes no step before it gives the group up.
void give_up_in_flight(World& world, const Road& road, const CallPlan& plan) {
  SCOPED_TRACE(to_string(road) + ": " + describe(plan));
  ProcessGroup group = fresh_group(world, forced(road));
  std::deque<KnownCall> calls;
  calls.emplace_back(group, plan);
  calls.emplace_back(group, plan);
  if (group.explain(calls[0].request()).algorithm.empty()) return;
  std::vector<Work> works;
  // The first starts last: what it needs is there.
  if (world.rank() == 0) await_tokens_of_all_others(world);
  for (const KnownCall& call : calls)
    if (works.empty() || world.rank() != world.size() - 1)
      works.push_back(group.start(call.request()));
  if (world.rank() != 0) send_token(world, 0);
  hear_that_it_is_given_up(group, works.back());
  Reused reused;
  for (std::size_t i = 0; i < works.size(); ++i) {
    EXPECT_TRUE(works[i].is_completed());
    if (works[i].error() == nullptr && i == 0) calls[i].check();
    for (const BufferView& view : calls[i].request().outputs.views()) reused.take(view);
  }
  expect_world_works(world);  // moves whatever is in flight
  reused.expect_left_alone();
}

RANK_TEST(GivenUp, NothingTouchesTheBuffersOfCollectives) {
  NEEDS_RANKS(2);
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  for (const OpType type : collectives())
    for (const Road& road : roads_of(free, type))
      if (type != OpType::barrier && promises_buffers(road.path))
        for (const std::size_t count : {10u, 50000u})
          give_up_in_flight(world, road, {.type = type, .dtype = DataType::int64, .count = count});
}

/// The message is there, and the receive has not looked yet.
void give_up_a_receive(World& world, const std::string& path) {
  SCOPED_TRACE(path);
  ProcessGroup group = fresh_group(world, GroupOptions{.description = path, .path = path});
  std::vector<std::int64_t> values(100, world.rank());
  Work work;
  if (world.rank() == 0) {
    await_token(world, 1);
    work = group.irecv(values, 1);
    group.abort("enough is enough");
    EXPECT_TRUE(work.is_completed());
  } else if (world.rank() == 1) {
    work = group.isend(values, 0);
    send_token(world, 0);
    EXPECT_TRUE(is_aborted_within(group, at_once));
    EXPECT_TRUE(work.is_completed());
  }
  Reused reused;
  reused.take(BufferView(values));
  expect_world_works(world);
  reused.expect_left_alone();
}

RANK_TEST(GivenUp, NothingTouchesTheBuffersOfMessages) {
  NEEDS_RANKS(2);
  ProcessGroup free = world.new_group(everybody(world), {.path = every_path()});
  std::vector<std::int64_t> values(100);
  const int other = world.rank() == 0 ? 1 : 0;
  for (const Candidate& candidate : free.explain(Request::recv(values, other)).candidates)
    if (promises_buffers(candidate.path)) give_up_a_receive(world, candidate.path);
}

/// Two receives for which nothing comes, on rank 0.
struct Hopeless {
  explicit Hopeless(ProcessGroup& group)
      : first(group.irecv(view_of(words[0]), 1, 1)), second(group.irecv(view_of(words[1]), 1, 2)) {}
  std::int32_t words[2] = {};
  Work first;
  Work second;
};

// All that ends together has ended when the first callback comes.
RANK_TEST(GivenUp, AHookMayWaitForWhatHasEndedWithIt) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "forsaken");
  if (world.rank() != 0) {
    EXPECT_TRUE(is_aborted_within(group, at_once));
    return;
  }
  Hopeless works(group);
  int failed = 0;
  group.on_completion([&](const CompletionInfo&) {
    EXPECT_TRUE(works.first.is_completed() && works.second.is_completed());
    EXPECT_THROW(works.second.wait(), AbortedError);
    group.wait_for_pending_works();
    if (++failed == 2) group.destroy();
  });
  group.abort("enough is enough");
  EXPECT_EQ(failed, 2);
}

// Nor where the rank leaves its world by an exception, and nothing is stepped any more.
RANK_TEST(GivenUp, AHookOfARankThatLeavesDoesNotWaitForEver) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "forsaken");
  ProcessGroup other = fresh_group(world, "forsaken, too");
  expect_world_works(world);  // who leaves breaks off what others still make with it
  if (world.rank() != 0) return;
  Hopeless elsewhere(other);
  Hopeless works(group);
  const auto began = std::chrono::steady_clock::now();
  group.on_completion([&](const CompletionInfo&) {
    EXPECT_THROW(works.second.wait(), AbortedError);
    EXPECT_THROW(elsewhere.first.wait(), AbortedError);
  });
  const auto leave = [&] {
    const World own(std::move(world));
    throw std::runtime_error("an error of the application");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

}  // namespace
}  // namespace hymn::test
