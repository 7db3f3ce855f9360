// A rank ends its world while others go on: no failure, but nobody need wait for it.
#include <thread>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// The call must fail at once, since this rank has left. Whoever sees it first throws a PeerError,
/// and gives the group up on the others.
void expect_left(int who, const std::function<void()>& call,
                 std::source_location where = std::source_location::current()) {
  const Error error =
      failure_of(call, {"rank " + std::to_string(who) + " (", "it has ended its world"}, where);
  EXPECT_TRUE(error.kind() == ErrorKind::peer || error.kind() == ErrorKind::aborted)
      << where.line() << ": " << error.what();
  EXPECT_EQ(error.context().missing, std::vector<int>{who}) << where.line() << ": " << error.what();
}

struct Leaver {
  explicit Leaver(const World& world)
      : rank(world.size() - 1), is_me(world.rank() == world.size() - 1) {}
  int rank;
  bool is_me;
};

/// The group was given up by this rank, for this reason; all say so, whoever has heard it first.
void expect_named(int who, ProcessGroup& group, std::string_view why,
                  std::source_location where = std::source_location::current()) {
  std::vector<double> values(1000, 1.0);
  const auto call = [&] {
    Work work = group.all_reduce_async(values);
    // The news name who it was; shared memory, which may be sooner, only has the words.
    EXPECT_TRUE(is_aborted_within(group, at_once));
    work.wait();
    group.all_reduce(values);  // its part of the first may have been done
  };
  const Error error = failure_of(call, {"rank " + std::to_string(who) + " ", why}, where);
  EXPECT_EQ(error.context().missing, std::vector<int>{who}) << where.line() << ": " << error.what();
}

void leave_by_an_exception(World& world) {
  const auto fail = [&] {
    const World own(std::move(world));
    throw std::runtime_error("an error of the application");
  };
  EXPECT_THROW(fail(), std::runtime_error);
}

/// All ranks but the last: such a group outlives it.
ProcessGroup group_of_rest(World& world) {
  std::vector<int> ranks(ranks_as_size(world) - 1);
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.new_group(ranks, {.description = "rest"});
}

// Who calls what there is not hears that, be others as quick as they like to give up and go.
RANK_TEST(Leaving, HidesNothingThatIsWrongWithACall) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  if (leaver.is_me) {
    await_tokens_of_all_others(world);
    world.destroy();
    return;
  }
  Work work = world.group().barrier_async();
  send_token(world, leaver.rank);
  expect_left(leaver.rank, [&] { work.wait(); });
  std::vector<float> values(3, 1.0f);
  EXPECT_THROW(group.all_reduce(values, ReduceOp::lor), UnsupportedError);
  EXPECT_THROW((void)group.all_reduce_async(values, ReduceOp::lor), UnsupportedError);
  EXPECT_FALSE(group.is_aborted());
}

RANK_TEST(Leaving, FailsWhatWaitsForIt) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  ProcessGroup rest = group_of_rest(world);
  if (leaver.is_me) {
    await_tokens_of_all_others(world);
    world.destroy();
    return;
  }
  Work work = group.barrier_async();
  send_token(world, leaver.rank);
  expect_left(leaver.rank, [&] { work.wait(); });
  EXPECT_TRUE(group.is_aborted());
  expect_left(leaver.rank, [&] { group.barrier(); });
  expect_group_works(rest);
}

RANK_TEST(Leaving, FailsBlockingCalls) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  std::vector<double> values(1000, 1.0);
  if (leaver.is_me) {
    world.destroy();
    return;
  }
  expect_left(leaver.rank, [&] { group.all_reduce(values); });
  // Of another group, and known before the call.
  expect_left(leaver.rank, [&] { world.group().barrier(); });
}

// It keeps the first coordinator of the control plane, which some may not have reached by then.
TEST(Leaving, OfTheFirstAtOnce) {
  for (int round = 0; round < 3; ++round)
    on_ranks([](World& world) {
      NEEDS_RANKS(2);
      if (world.rank() == 0)
        world.destroy();
      else
        expect_left(0, [&] { world.group().barrier(); });
    });
}

RANK_TEST(Leaving, AfterItsPartIsDoneHarmsNobody) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup rest = group_of_rest(world);
  std::vector<std::int32_t> values(1000, 1);
  std::vector<std::int32_t> gathered(ranks_as_size(world));
  const std::int32_t mine = world.rank();
  world.group().all_reduce(values);
  world.group().gather(view_of(mine), gathered, 0);
  if (leaver.is_me) {
    world.destroy();
    return;
  }
  EXPECT_EQ(values[999], world.size());
  for (int rank = 0; world.rank() == 0 && rank < world.size(); ++rank)
    EXPECT_EQ(gathered[as_size(rank)], rank);
  expect_group_works(rest);
}

// What is wrong with a call is said before the group is given up for who has left.
RANK_TEST(Leaving, AWrongCallAfterwardsHarmsNobody) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  ProcessGroup rest = group_of_rest(world);
  if (leaver.is_me) {
    world.destroy();
    return;
  }
  // All the others know that it has left.
  std::int32_t never = 0;
  expect_left(leaver.rank, [&] { group.recv(view_of(never), leaver.rank, 1); });
  std::vector<std::int32_t> values(10, 1);
  std::vector<double> others(10, 1.0);
  const Words words = {"root 99", "forsaken"};
  expect_error(ErrorKind::usage, [&] { group.broadcast(values, 99); }, words);
  expect_error(ErrorKind::usage, [&] { (void)group.broadcast_async(values, 99); }, words);
  const std::array requests = {Request::broadcast(values, 0), Request::broadcast(others, 99)};
  expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced(requests); }, words);
  EXPECT_FALSE(group.is_aborted());
  rest.barrier();  // the others, too, have made their wrong calls
  expect_left(leaver.rank, [&] { (void)group.broadcast_async(values, 0); });
  EXPECT_TRUE(group.is_aborted());
}

RANK_TEST(Leaving, WhatItHasSentIsReceived) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup rest = group_of_rest(world);
  std::int32_t value = 17;
  if (leaver.is_me) {
    for (int rank = 0; rank < leaver.rank; ++rank) world.group().send(view_of(value), rank);
    world.destroy();
    return;
  }
  // All the others know that it has left.
  std::int32_t never = 0;
  expect_left(leaver.rank, [&] { world.group().recv(view_of(never), leaver.rank, 1); });
  expect_left(leaver.rank, [&] { (void)world.group().probe(leaver.rank, 1); });
  expect_left(leaver.rank, [&] { (void)world.group().iprobe(leaver.rank, 1); });
  EXPECT_EQ(world.group().probe(leaver.rank).bytes, sizeof(value));
  EXPECT_TRUE(world.group().iprobe(leaver.rank).has_value());
  value = 0;
  world.group().recv(view_of(value), leaver.rank);
  EXPECT_EQ(value, 17);
  expect_left(leaver.rank, [&] { world.group().recv(view_of(never), leaver.rank); });
  expect_left(leaver.rank, [&] { (void)world.group().probe(leaver.rank); });
  EXPECT_FALSE(world.group().is_aborted());  // messages between the others go on
  expect_group_works(rest);
}

RANK_TEST(Leaving, FailsAReceiveFromAnyoneWhenAllHaveLeft) {
  NEEDS_RANKS(2);
  if (world.rank() != 0) {
    world.destroy();
    return;
  }
  std::int32_t never = 0;
  const Error error = failure_of([&] { world.group().recv(view_of(never), any_source); },
                                 {"it has ended its world"});
  EXPECT_EQ(error.kind(), ErrorKind::peer) << error.what();
  EXPECT_EQ(error.context().missing.size(), ranks_as_size(world) - 1) << error.what();
  const auto probe = [&] { (void)world.group().probe(any_source); };
  EXPECT_EQ(failure_of(probe, {"probe", "it has ended its world"}).kind(), ErrorKind::peer);
}

RANK_TEST(Leaving, AReceiveFromAnyoneGoesOnWhileOneIsLeft) {
  NEEDS_RANKS(3);
  const Leaver leaver(world);
  std::int32_t value = 0;
  if (world.rank() == 0) {
    send_token(world, leaver.rank);
    EXPECT_EQ(world.group().recv(view_of(value), any_source).source, 1);
    EXPECT_EQ(value, 17);
  } else if (leaver.is_me) {
    await_token(world, 0);
    world.destroy();
  } else if (world.rank() == 1) {
    // It is known to have left when the message comes.
    expect_left(leaver.rank, [&] { world.group().recv(view_of(value), leaver.rank); });
    std::this_thread::sleep_for(300ms);
    value = 17;
    world.group().send(view_of(value), 0);
  }
}

// Not at the end of the world, either, where all who leave in order wait for each other.
RANK_TEST(Leaving, ByAnExceptionIsWaitedForByNobody) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  expect_world_works(world);  // who leaves breaks off what others still make with it
  if (leaver.is_me) {
    return leave_by_an_exception(world);
  }
  const auto began = std::chrono::steady_clock::now();
  failure_of([&] { group.barrier(); }, {"it has ended its world because of an error"});
  world.destroy();
  EXPECT_LT(std::chrono::steady_clock::now() - began, at_once);
}

// With a collective in flight, too; and what was on its stack is gone by then.
RANK_TEST(Leaving, ByAnExceptionIsNamedByWhatItHasInFlight) {
  NEEDS_RANKS(3);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  if (leaver.is_me) {
    await_tokens_of_all_others(world);
    std::vector<double> values(1000, 1.0);
    (void)group.all_reduce_async(values);
    return leave_by_an_exception(world);
  }
  send_token(world, leaver.rank);
  expect_named(leaver.rank, group, "an exception has come out of the scope of its World");
}

RANK_TEST(Leaving, BeforeACallHasCompletedIsNamed) {
  NEEDS_RANKS(3);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  if (leaver.is_me) {
    std::vector<double> values(1000, 1.0);
    (void)group.all_reduce_async(values);
    group.set_timeout(100ms);  // of the end, not of the call
    group.destroy();
    for (int rank = 0; rank < leaver.rank; ++rank) send_token(world, rank);
    return;
  }
  await_token(world, leaver.rank);
  expect_named(leaver.rank, group, "has destroyed group");
}

RANK_TEST(Leaving, ByAnExceptionIsNotWaitedForInNewGroups) {
  NEEDS_RANKS(3);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  expect_world_works(world);  // all have made it
  if (leaver.is_me) {
    return leave_by_an_exception(world);
  }
  failure_of([&] { group.barrier(); });
  const Error error =
      failure_of([&] { fresh_group(world, {.description = "of all", .init_timeout = 30s}); });
  EXPECT_EQ(error.context().missing, std::vector<int>{leaver.rank}) << error.what();
}

// What failed first is why this rank leaves, whatever has failed since.
RANK_TEST(Leaving, ByAnExceptionBlamesTheFirstFailure) {
  NEEDS_RANKS(4);
  ProcessGroup with_first = world.new_group({0, 1});
  ProcessGroup with_later = world.new_group({0, 2});
  ProcessGroup with_us = world.new_group({0, 3});
  expect_world_works(world);  // all have made them
  if (world.rank() == 0) {
    expect_left(1, [&] { with_first.barrier(); });
    send_token(world, 2);
    expect_left(2, [&] { with_later.barrier(); });
    const auto fail = [&] {
      const World own(std::move(world));
      throw std::runtime_error("one failure too many");
    };
    EXPECT_THROW(fail(), std::runtime_error);
  } else if (world.rank() == 1) {
    world.destroy();
  } else if (world.rank() == 2) {
    await_token(world, 0);
    world.destroy();
  } else if (world.rank() == 3) {
    const Error error = failure_of([&] { with_us.barrier(); }, {"rank 1 ("});
    EXPECT_EQ(error.context().missing, std::vector<int>{1}) << error.what();
  }
}

// But for those without whom it has gone on since.
RANK_TEST(Leaving, ByAnExceptionBlamesNobodyItHasGoneOnWithout) {
  NEEDS_RANKS(3);
  ProcessGroup with_first = world.new_group({0, 1});
  ProcessGroup with_us = world.new_group({0, 2});
  if (world.rank() == 0) {
    expect_left(1, [&] { with_first.barrier(); });
    with_us.barrier();
    leave_by_an_exception(world);
  } else if (world.rank() == 1) {
    world.destroy();
  } else if (world.rank() == 2) {
    with_us.barrier();
    const Error error = failure_of([&] { with_us.barrier(); },
                                   {"rank 0 (", "it has ended its world because of an error"});
    EXPECT_EQ(error.context().missing, std::vector<int>{0}) << error.what();
  }
}

RANK_TEST(Leaving, ShrinkGoesOnWithoutIt) {
  NEEDS_RANKS(2);
  const Leaver leaver(world);
  ProcessGroup group = fresh_group(world, "forsaken");
  if (leaver.is_me) {
    world.destroy();
    return;
  }
  failure_of([&] { group.barrier(); });
  ProcessGroup rest = group.shrink();
  EXPECT_EQ(rest.size(), world.size() - 1);
  EXPECT_EQ(rest.rank(), world.rank());
  EXPECT_EQ(rest.membership().epoch, 1u);
  expect_group_works(rest);
}

}  // namespace
}  // namespace hymn::test
