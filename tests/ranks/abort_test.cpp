// A group is given up by a call of abort(), from any thread: whoever is in it hears so, and why.
#include <thread>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// A thread of rank 0 gives the group up when the others are likely to wait in their calls; where
/// they are later, the call fails with the same words.
class Aborter {
 public:
  Aborter(const World& world, ProcessGroup group) {
    if (world.rank() == 0)
      thread_ = std::thread([group]() mutable {
        std::this_thread::sleep_for(100ms);
        group.abort("enough is enough");
      });
  }
  Aborter(const Aborter&) = delete;
  Aborter& operator=(const Aborter&) = delete;
  ~Aborter() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

void expect_enough(const std::function<void()>& call,
                   std::source_location where = std::source_location::current()) {
  const Error error = failure_of(call, {"rank 0: abort was called: enough is enough"}, where);
  EXPECT_EQ(error.kind(), ErrorKind::aborted) << where.line() << ": " << error.what();
}

/// All wait in `call`, which cannot complete, until the group is given up. Another group goes on,
/// also with what was in flight.
void expect_released(World& world, const std::function<void(ProcessGroup&)>& call) {
  ProcessGroup group = fresh_group(world, "given up");
  ProcessGroup sound = fresh_group(world, "sound");
  Work in_flight;
  if (world.rank() != 0) in_flight = sound.barrier_async();
  {
    const Aborter aborter(world, group);
    expect_enough([&] { call(group); });
  }
  // A receive may hear of it through shared memory, before the news come.
  EXPECT_TRUE(is_aborted_within(group, at_once));
  EXPECT_FALSE(group.is_destroyed());
  EXPECT_FALSE(sound.is_aborted());
  if (world.rank() == 0)
    sound.barrier();
  else
    in_flight.wait();
  expect_group_works(sound);
  expect_world_works(world);
}

/// The last rank does not take part; it waits for a message that nobody sends.
bool stays_away(World& world, ProcessGroup& group) {
  if (world.rank() != world.size() - 1) return false;
  std::int32_t never = 0;
  group.recv(view_of(never), 0, 99);
  return true;
}

RANK_TEST(Abort, test_abort_pg) {
  NEEDS_RANKS(2);
  Buffer buffer(DataType::float32, 1000);
  expect_released(world, [&](ProcessGroup& group) {
    if (!stays_away(world, group)) group.all_reduce(buffer);
  });
}

RANK_TEST(Abort, ReleasesReceives) {
  NEEDS_RANKS(2);
  Buffer buffer(DataType::float32, 10);
  expect_released(world, [&](ProcessGroup& group) {
    if (world.rank() == 0)
      group.recv(buffer, any_source);
    else
      group.recv(buffer, 0);
  });
  expect_untouched(buffer);
}

RANK_TEST(Abort, ReleasesSends) {
  NEEDS_RANKS(2);
  // Too much to be put away anywhere.
  const std::vector<double> much(1 << 21, 1.0);
  expect_released(world, [&](ProcessGroup& group) {
    if (world.rank() != 0) return (void)stays_away(world, group), group.barrier();
    group.send(much, 1);
    group.barrier();
  });
}

RANK_TEST(Abort, ReleasesWaits) {
  NEEDS_RANKS(2);
  std::vector<double> values(1000, 1.0);
  expect_released(world, [&](ProcessGroup& group) {
    if (!stays_away(world, group)) group.all_reduce_async(values).wait();
  });
  expect_released(world, [&](ProcessGroup& group) {
    if (!stays_away(world, group)) group.barrier_async().wait(50s);
  });
}

RANK_TEST(Abort, ReleasesFutures) {
  NEEDS_RANKS(2);
  expect_released(world, [&](ProcessGroup& group) {
    if (!stays_away(world, group)) group.barrier_async().get_future().get();
  });
}

RANK_TEST(Abort, IsSeenByTest) {
  NEEDS_RANKS(2);
  expect_released(world, [&](ProcessGroup& group) {
    if (stays_away(world, group)) return;
    Work work = group.barrier_async();
    const auto limit = std::chrono::steady_clock::now() + at_once;
    while (!work.test() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(work.is_completed());
    EXPECT_NE(work.error(), nullptr);
    work.result();
  });
}

RANK_TEST(Abort, TheFirstReasonStays) {
  ProcessGroup group = fresh_group(world, "given up");
  std::int32_t one = 1;
  // Here, and known here at once.
  if (world.rank() == 0) {
    EXPECT_FALSE(group.is_aborted());
    group.abort("enough is enough");
    EXPECT_TRUE(group.is_aborted());
    group.abort("and more than that");
    EXPECT_TRUE(group.is_aborted());
  }
  signal_from_first(world);
  EXPECT_TRUE(is_aborted_within(group, at_once));
  group.abort("me too");
  const int peer = world.rank() == 0 ? 1 : 0;
  expect_enough([&] { group.all_reduce(view_of(one)); });
  expect_enough([&] { (void)group.barrier_async(); });
  if (world.size() > 1) {
    expect_enough([&] { group.send(view_of(one), peer); });
    expect_enough([&] { (void)group.irecv(view_of(one), peer); });
    const std::vector<P2POp> batch = {P2POp::send(view_of(one), peer)};
    expect_enough([&] { (void)group.batch_isend_irecv(batch); });
  }
  EXPECT_EQ(group.collective_sequence(), 0u);
  EXPECT_EQ(group.p2p_sequence(), 0u);
  expect_world_works(world);
  group.destroy();
  EXPECT_TRUE(group.is_destroyed());
}

RANK_TEST(Abort, OfADestroyedGroup) {
  ProcessGroup group = fresh_group(world, "over");
  group.barrier();
  group.destroy();
  expect_error(ErrorKind::usage, [&] { group.abort("too late"); }, {"destroyed", "over"});
  expect_world_works(world);
}

RANK_TEST(Abort, ByARankOutsideTheGroupDoesNothing) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group({0}, {.description = "of one"});
  if (world.rank() != 0) {
    group.abort("none of my business");
    EXPECT_FALSE(group.is_aborted());
  }
  world.group().barrier();
  if (world.rank() == 0) expect_group_works(group);
}

RANK_TEST(Abort, OfAPartOfTheRanksConcernsNobodyElse) {
  NEEDS_RANKS(3);
  ProcessGroup pair = world.new_group({0, 1}, {.description = "pair"});
  ProcessGroup rest = world.new_group({0, 2}, {.description = "rest"});
  if (world.rank() == 0) pair.abort("enough is enough");
  if (world.rank() == 1) expect_enough([&] { pair.barrier(); });
  EXPECT_FALSE(rest.is_aborted());
  if (rest.is_member()) expect_group_works(rest);
  expect_world_works(world);
}

RANK_TEST(Abort, NamesExactlyTheRanksThatHaveNotCome) {
  NEEDS_RANKS(2);
  // The others are in it for sure when rank 0 comes, which alone has a short limit.
  ProcessGroup group = fresh_group(world, "incomplete");
  const int last = world.size() - 1;
  const std::string missing = "rank " + std::to_string(last) + " (";
  const auto check = [&](const Error& error) {
    EXPECT_EQ(error.context().missing, std::vector<int>{last}) << error.what();
    for (int rank = 0; rank < last; ++rank)
      EXPECT_EQ(std::string(error.what()).find("rank " + std::to_string(rank) + " ("),
                std::string::npos)
          << error.what();
  };
  if (world.rank() == 0) {
    for (int rank = 1; rank < last; ++rank) await_token(world, rank);
    const Error error = failure_of([&] { group.barrier({.timeout = 300ms}); },
                                   {"barrier #1", "incomplete", "missing: " + missing});
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    check(error);
  } else if (world.rank() != last) {
    Work work = group.barrier_async();
    send_token(world, 0);
    // The news name who is missing; shared memory, which may be sooner, only has the words.
    EXPECT_TRUE(is_aborted_within(group, at_once));
    const Error error = failure_of([&] { work.wait(); }, {"rank 0", missing});
    EXPECT_EQ(error.kind(), ErrorKind::aborted) << error.what();
    check(error);
  } else {
    EXPECT_TRUE(is_aborted_within(group, at_once));
    check(failure_of([&] { group.barrier(); }, {missing}));
  }
  expect_world_works(world);
}

}  // namespace
}  // namespace hymn::test
