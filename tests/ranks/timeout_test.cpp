// What happens when time runs out: of a wait, of a call, of a group.
#include <array>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// `call` must throw a TimeoutError that says so, after at least `limit` and not long after.
void expect_timeout(const std::function<void()>& call, Duration limit, Words words) {
  const auto before = std::chrono::steady_clock::now();
  Duration waited{0};
  expect_error(
      ErrorKind::timeout,
      [&] {
        try {
          call();
        } catch (const TimeoutError& error) {
          waited = error.waited();
          throw;
        }
      },
      words);
  EXPECT_GE(waited, limit);
  EXPECT_LT(std::chrono::steady_clock::now() - before, limit + 20s);
}

/// The other ranks come to an operation that rank 0 has given up: it may complete or fail, not
/// hang.
void come_too_late(const std::function<void()>& call) {
  const auto before = std::chrono::steady_clock::now();
  error_text(call);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
}

RANK_TEST(Timeout, OfAWaitLeavesTheWorkInFlight) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "patient");
  std::int32_t one = 1;
  if (world.rank() != 0) {
    signal_from_first(world);
    group.all_reduce(view_of(one));
  } else {
    Work work = group.all_reduce_async(view_of(one));
    for (int i = 0; i < 2; ++i)
      expect_timeout([&] { work.wait(50ms); }, 50ms, {"all_reduce", "patient", "rank 0", "0.05"});
    expect_timeout([&] { work.get_future().get(50ms); }, 50ms, {});
    EXPECT_FALSE(work.is_completed());
    EXPECT_FALSE(work.test());
    EXPECT_EQ(work.error(), nullptr);
    expect_error(ErrorKind::usage, [&] { work.result(); });
    signal_from_first(world);
    work.wait(30s);
    EXPECT_TRUE(work.is_completed());
  }
  EXPECT_EQ(one, world.size());
  group.barrier();  // and the group goes on
}

RANK_TEST(Timeout, OfAWaitThatIsLongEnough) {
  std::vector<float> values(100, 1.0f);
  Work work = world.group().all_reduce_async(values);
  work.wait(30s);
  work.wait(0s);  // has completed: nothing to wait for
  EXPECT_EQ(values[99], static_cast<float>(world.size()));
}

RANK_TEST(Timeout, OfACallGivesTheGroupUp) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  std::int64_t one = 1;
  const auto call = [&](Timeout timeout) {
    group.all_reduce(view_of(one), ReduceOp::sum, {.timeout = timeout});
  };
  if (world.rank() == 0) {
    expect_timeout([&] { call(100ms); }, 100ms, {"all_reduce", "given up", "rank 0", "0.1"});
    // From now on every call says so, with the first reason.
    expect_error(ErrorKind::aborted, [&] { call(30s); }, {"given up", "rank 0", "all_reduce"});
    expect_error(ErrorKind::aborted, [&] { group.barrier(); }, {"all_reduce"});
    expect_error(ErrorKind::aborted, [&] { (void)group.barrier_async(); }, {"all_reduce"});
    EXPECT_FALSE(group.is_destroyed());
  }
  signal_from_first(world);
  if (world.rank() != 0) come_too_late([&] { call(1s); });
  expect_world_works(world);
  group.destroy();
  expect_world_works(world);
}

void expect_asynchronous_timeout(World& world) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  if (world.rank() == 0) {
    Work waited = group.barrier_async({.timeout = 500ms});
    Work after = group.barrier_async();
    expect_timeout([&] { waited.wait(); }, 500ms, {"barrier", "given up", "rank 0"});
    EXPECT_TRUE(waited.is_completed());
    EXPECT_NE(waited.error(), nullptr);
    expect_error(ErrorKind::timeout, [&] { waited.wait(); });  // says the same again
    expect_error(ErrorKind::timeout, [&] { waited.result(); });
    expect_error(ErrorKind::timeout, [&] { waited.get_future().get(); });
    expect_error(ErrorKind::aborted, [&] { after.wait(); }, {"barrier"});
  }
  signal_from_first(world);
  if (world.rank() != 0) come_too_late([&] { group.barrier({.timeout = 1s}); });
  expect_world_works(world);
}

// The watchdog, left on, gives up what a thread without a core does not come to wait for.
TEST(Timeout, OfAnAsynchronousCall) {
  const Variable policy("HYMN_ON_FAILURE", "report");
  on_ranks(expect_asynchronous_timeout);
}

void expect_timeout_seen_by_test(World& world) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "polled");
  if (world.rank() == 0) {
    Work work = group.barrier_async({.timeout = 50ms});
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!work.test() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(work.is_completed());
    EXPECT_NE(work.error(), nullptr);
    expect_error(ErrorKind::timeout, [&] { work.wait(); }, {"barrier", "polled", "rank 0"});
  }
  signal_from_first(world);
  if (world.rank() != 0) come_too_late([&] { group.barrier({.timeout = 1s}); });
  expect_world_works(world);
}

TEST(Timeout, IsSeenByTest) {
  const Variable policy("HYMN_ON_FAILURE", "report");  // likewise
  on_ranks(expect_timeout_seen_by_test);
}

RANK_TEST(Timeout, OfAReceive) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "silent");
  Buffer in(DataType::float32, 4);
  if (world.rank() == 0)
    expect_timeout([&] { group.recv(in, 1, 0, {.timeout = 50ms}); }, 50ms,
                   {"recv", "silent", "rank 0"});
  expect_untouched(in);
  group.barrier();  // a receive that has not happened concerns nobody else
}

/// In a ring: from the rank before.
void receive_in_ring(ProcessGroup& group, Timeout timeout) {
  Buffer in(DataType::float32, 4);
  group.recv(in, (group.rank() + group.size() - 1) % group.size(), 1, {.timeout = timeout});
}
void send_in_ring(ProcessGroup& group) {
  group.send(Buffer(DataType::float32, 4), (group.rank() + 1) % group.size(), 1);
}
/// Who receives, fails, and receives again; and before that once more where the others have not all
/// come to wait within the limit.
void expect_missing_in_ring(ProcessGroup& group, const std::vector<int>& missing,
                            const std::vector<std::string>& words) {
  for (int turn = 1;; ++turn) try {
      receive_in_ring(group, 1s);
      ADD_FAILURE() << "received what nobody has sent";
      return;
    } catch (const TimeoutError& error) {
      if (error.context().missing != missing && turn < 10) continue;
      EXPECT_EQ(error.context().missing, missing) << error.what();
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      return;
    }
}

// The last rank waits for one that waits for one …, to the first, which does something else.
RANK_TEST(Timeout, NamesTheEndOfAChain) {
  NEEDS_RANKS(3);
  ProcessGroup group = fresh_group(world, "chain");
  const int last = world.size() - 1;
  std::int32_t word = 0;
  if (world.rank() == 0) {
    Work work = group.irecv(view_of(word), last, 2);
    while (!work.test()) std::this_thread::sleep_for(1ms);
  } else if (world.rank() == last) {
    expect_missing_in_ring(group, {0, last - 1},
                           {"rank 1 waits for rank 0; in the end all wait for rank 0"});
    group.send(view_of(word), 0, 2);
    receive_in_ring(group, 50s);
  } else {
    receive_in_ring(group, 50s);
  }
  if (world.rank() != last) send_in_ring(group);
}

RANK_TEST(Timeout, NamesAllWhoWaitForEachOther) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "circle");
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  if (world.rank() == 0) {
    const std::string first = world.size() == 2 ? "ranks 0, 1 wait" : "ranks 0, 1, 2";
    expect_missing_in_ring(group, all, {"deadlock: " + first, "wait for each other"});
    send_in_ring(group);
  }
  receive_in_ring(group, 50s);
  if (world.rank() != 0) send_in_ring(group);
}

// Who waits for any of several may go on without the one that another rank lacks.
RANK_TEST(Timeout, NoDeadlockWithARankThatWaitsForAnyOfSeveral) {
  NEEDS_RANKS(3);
  ProcessGroup group = fresh_group(world, "either");
  std::array<std::int32_t, 2> words{};
  if (world.rank() == 0) {
    std::array works = {group.irecv(view_of(words[0]), 1, 2), group.irecv(view_of(words[1]), 2, 2)};
    EXPECT_EQ(wait_any(works), 1u);
    group.send(view_of(words[1]), 1, 1);
    works[0].wait();
  } else if (world.rank() == 1) {
    try {
      group.recv(view_of(words[0]), 0, 1, {.timeout = 1s});
      ADD_FAILURE() << "received what nobody has sent";
    } catch (const TimeoutError& error) {
      EXPECT_EQ(std::string(error.what()).find("deadlock"), std::string::npos) << error.what();
      EXPECT_EQ(error.context().missing, std::vector<int>{0}) << error.what();
    }
    group.send(view_of(words[0]), 2, 1);
    group.recv(view_of(words[0]), 0, 1);
    group.send(view_of(words[0]), 0, 2);
  } else if (world.rank() == 2) {
    group.recv(view_of(words[0]), 1, 1);
    group.send(view_of(words[0]), 0, 2);
  }
  group.barrier();
}

RANK_TEST(Timeout, NobodyEverComes) {
  NEEDS_RANKS(2);
  // The end of the world, and of MPI after it, must not wait for the ranks that never call.
  ProcessGroup group = fresh_group(world, "forsaken");
  Buffer buffer(DataType::float32, 1000);
  if (world.rank() == world.size() - 1)
    expect_timeout([&] { group.all_reduce(buffer, ReduceOp::sum, {.timeout = 50ms}); }, 50ms,
                   {"all_reduce", "forsaken"});
  expect_world_works(world);
  world.destroy();
}

RANK_TEST(Timeout, OfAGroupCanBeChanged) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "changing", Timeout::none());
  EXPECT_TRUE(group.timeout().is_none());
  group.barrier();
  world.group().barrier();  // or one that is late is still in it when rank 0 gives the group up
  group.set_timeout(100ms);
  EXPECT_EQ(group.timeout(), Timeout(100ms));
  if (world.rank() == 0)
    expect_timeout([&] { group.barrier(); }, 100ms, {"barrier", "changing", "rank 0"});
  signal_from_first(world);
  if (world.rank() != 0) come_too_late([&] { group.barrier(); });
  expect_world_works(world);
}

RANK_TEST(Timeout, OfACallWinsOverTheGroups) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "hasty");
  group.set_timeout(1ms);
  std::int32_t one = 1;
  if (world.rank() == 0) std::this_thread::sleep_for(50ms);
  group.all_reduce(view_of(one), ReduceOp::sum, {.timeout = 30s});
  EXPECT_EQ(one, world.size());
  if (world.rank() == 0) std::this_thread::sleep_for(50ms);
  group.all_reduce(view_of(one), ReduceOp::sum, {.timeout = Timeout::none()});
  EXPECT_EQ(one, world.size() * world.size());
}

RANK_TEST(Timeout, MustBeSet) {
  const Timeout before = world.group().timeout();
  EXPECT_TRUE(before.is_set());
  expect_error(ErrorKind::usage, [&] { world.group().set_timeout(Timeout()); });
  EXPECT_EQ(world.group().timeout(), before);
}

TEST(Timeout, OfTheWorldIsTheDefault) {
  on_ranks(
      [](World& world) {
        EXPECT_EQ(world.group().timeout(), Timeout(45s));
        EXPECT_EQ(fresh_group(world, "same").timeout(), Timeout(45s));
        EXPECT_EQ(fresh_group(world, "own", 50s).timeout(), Timeout(50s));
        world.group().set_timeout(Timeout::none());
        EXPECT_TRUE(world.group().timeout().is_none());
        expect_world_works(world);
      },
      {.timeout = 45s});
}

TEST(Timeout, NoneCarriesEverything) {
  on_ranks(
      [](World& world) {
        for (int i = 0; i < 20; ++i) {
          expect_world_works(world);
          // Asynchronous and blocking calls in turn, with and without work in flight.
          std::int32_t one = 1;
          std::int32_t two = 2;
          Work first = world.group().all_reduce_async(view_of(one));
          world.group().all_reduce(view_of(two));
          Work second = world.group().barrier_async();
          second.wait();
          world.group().barrier();
          first.wait();
          EXPECT_EQ(one, world.size());
          EXPECT_EQ(two, 2 * world.size());
        }
        const Buffer in = filled(DataType::uint8, 9, world.rank());
        BlockBuffer out(DataType::uint8, world.size(), 9);
        world.group().all_gather(in, out.view());
        out.expect_from_all();
        std::int64_t sum = 1;
        world.group().reduce(view_of(sum), 0);
        EXPECT_EQ(sum, world.rank() == 0 ? world.size() : sum);
      },
      {.timeout = Timeout::none()});
}

RANK_TEST(Timeout, FormsAndLimitsMayDifferFromRankToRank) {
  for (int special = 0; special < world.size(); ++special) {
    std::vector<std::int32_t> values(100, 1);
    if (world.rank() == special)
      world.group().all_reduce_async(values).wait();
    else
      world.group().all_reduce(values);
    EXPECT_EQ(values[99], world.size());
    const bool for_ever = world.rank() != special;
    world.group().barrier({.timeout = for_ever ? Timeout::none() : Timeout(30s)});
    Buffer shared(DataType::float32, 12);
    if (world.rank() == special) fill(shared, special);
    if (for_ever)
      world.group().broadcast(shared, special, {.timeout = Timeout::none()});
    else
      world.group().broadcast_async(shared, special).wait();
    expect_filled(shared, special);
  }
}

}  // namespace
}  // namespace hymn::test
