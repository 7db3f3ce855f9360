// A World needs no more than an Exchange: collectives over exchanges of the test's own, without
// MPI.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <deque>
#include <future>
#include <thread>

#include "hymn/hymn.hpp"
#include "tests/unit/exercise_world.hpp"
#include "tests/unit/forked_ranks.hpp"
#include "tests/unit/toy_exchanges.hpp"

namespace hymn::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool mpi_is_initialised() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  return initialised != 0;
}

/// All ranks are on this host.
void exercise_here(World& world) {
  const Explanation why = world.group().explain(Request::barrier());
  require(world.size() == 1 || why.path == "shm", "the choice of the path");
  exercise(world);
}

void exercise_exchange(World& world) {
  const Explanation why = world.group().explain(Request::barrier());
  require(why.path == "exchange", "the choice of the path");
  exercise(world);
}

/// Runs one rank; its complaint, or "".
std::string run_rank(std::shared_ptr<Exchange> exchange, void (*body)(World&),
                     const WorldOptions& options = {}) {
  try {
    World world = World::over(std::move(exchange), options);
    body(world);
    world.destroy();
    if (mpi_is_initialised()) return "MPI was initialised";
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void run_threads(int ranks, void (*body)(World&), const WorldOptions& options = {}) {
  const auto post = std::make_shared<SlowPost>(ranks, 17u);
  std::vector<std::string> complaints(as_size(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      complaints[as_size(rank)] =
          run_rank(std::make_shared<SlowExchange>(post, rank), body, options);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complaints, std::vector<std::string>(as_size(ranks))) << ranks << " ranks";
}

TEST(WorldOverExchange, OfThreadsWithSlowPost) {
  for (const int ranks : {1, 2, 3, 5}) run_threads(ranks, exercise_exchange, {.path = "exchange"});
  EXPECT_FALSE(mpi_is_initialised());
}

// They do not know that they share a process, and share memory as ranks of one host do.
TEST(WorldOverExchange, OfThreadsThatShareMemory) {
  for (const int ranks : {1, 3}) run_threads(ranks, exercise_here);
}

std::vector<int> run_processes(int ranks, void (*body)(World&), const WorldOptions& options = {}) {
  return run_forked_ranks(ranks, [&](std::shared_ptr<Exchange> exchange) {
    return run_rank(std::move(exchange), body, options);
  });
}

TEST(WorldOverExchange, OfProcessesWithSockets) {
  for (const int ranks : {2, 4})
    EXPECT_THAT(run_processes(ranks, exercise_exchange, {.path = "exchange"}), Each(0));
}

TEST(WorldOverExchange, OfProcessesThatShareMemory) {
  for (const int ranks : {1, 2, 3}) EXPECT_THAT(run_processes(ranks, exercise_here), Each(0));
}

// Ranks outside have no handle of it that anybody destroys.
TEST(WorldOverExchange, AGroupWithATagDoesNotKeepItsWorld) {
  const auto post = std::make_shared<SlowPost>(2, 1u);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto exchange = std::make_shared<SlowExchange>(post, rank);
      World::over(exchange).new_group({0}, {.tag = "first"});
      EXPECT_EQ(exchange.use_count(), 1);
    });
  for (std::thread& thread : threads) thread.join();
}

void require_missing(const Error& error, int rank) {
  require(error.context().missing == std::vector{rank}, std::string("naming in: ") + error.what());
}

/// Of three ranks the last is killed; its sockets break.
void lose_last(World& world) {
  world.group().barrier();
  if (world.rank() == 2) ::raise(SIGKILL);
  const GroupOptions options{.init_timeout = std::chrono::seconds(20), .local_sync = true};
  try {
    world.new_group({0, 1, 2}, options);
    throw std::runtime_error("a group of the dead was made");
  } catch (const PeerError& error) {
    require_missing(error, 2);
  }
  ProcessGroup pair = world.new_group({0, 1}, options);
  try_reductions(pair, 7);
}

TEST(WorldOverExchange, WhoDiesWhileMembersMakeAGroupIsNamed) {
  const std::vector<int> endings = run_processes(3, lose_last);
  EXPECT_THAT(endings, ElementsAre(0, 0, SIGKILL));
}

/// One is killed while the others wait for it; they go on without it.
void shrink_without_last(World& world) {
  world.group().barrier();
  if (world.rank() == world.size() - 1) ::raise(SIGKILL);
  float value = 1;
  try {
    world.group().all_reduce(view_of(value));
    throw std::runtime_error("an all_reduce with the dead has ended well");
  } catch (const PeerError& error) {
    require_missing(error, world.size() - 1);
  } catch (const AbortedError& error) {
    require_missing(error, world.size() - 1);
  }
  ProcessGroup left = world.group().shrink();
  require(left.size() == world.size() - 1, "shrink");
  try_reductions(left, 7);
}

TEST(WorldOverExchange, ADeathIsHeardOfAndTheRestGoOn) {
  const std::vector<int> endings = run_processes(3, shrink_without_last);
  EXPECT_THAT(endings, ElementsAre(0, 0, SIGKILL));
}

/// A connection that breaks when told to.
class BreakingExchange final : public Exchange {
 public:
  int rank() const override { return inner_.rank(); }
  int size() const override { return 2; }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    if (broken) throw NetworkError("the connection to rank " + std::to_string(to) + " was lost");
    inner_.send(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return inner_.try_receive(from, tag);
  }
  std::string name() const override { return "breaking"; }

  explicit BreakingExchange(std::shared_ptr<SlowPost> post, int rank)
      : inner_(std::move(post), rank) {}
  std::atomic<bool> broken{false};

 private:
  SlowExchange inner_;
};

TEST(WorldOverExchange, ItsFailuresReachTheCaller) {
  const auto post = std::make_shared<SlowPost>(2, 1u);
  const auto exchange = std::make_shared<BreakingExchange>(post, 0);
  const WorldOptions options{.path = "exchange"};
  std::promise<void> over;
  std::thread other([&] {
    World world = World::over(std::make_shared<SlowExchange>(post, 1), options);
    over.get_future().wait();  // it is there, and hears of what has failed
  });
  World world = World::over(exchange, options);
  exchange->broken = true;
  float value = 1;
  for (const bool async : {false, true}) {
    ProcessGroup group = world.group();
    try {
      if (async)
        group.send(view_of(value), 1);
      else
        group.isend(view_of(value), 1).wait();
      ADD_FAILURE() << "nothing is thrown";
    } catch (const NetworkError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the connection to rank 1 was lost"));
      EXPECT_THAT(error.what(), HasSubstr("rank 0"));
      EXPECT_THAT(error.what(), HasSubstr("default_pg"));
      EXPECT_THAT(error.what(), HasSubstr("send #"));
    }
  }
  EXPECT_THROW(world.group().all_reduce(view_of(value)), NetworkError);
  EXPECT_THROW(world.group().barrier(), AbortedError);
  over.set_value();
  other.join();
}

/// Its messages are on their way for as long as that is said, and no longer.
class HeldMessages final : public Exchange {
 public:
  HeldMessages(std::shared_ptr<SlowPost> post, int rank) : inner_(std::move(post), rank) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    inner_.send(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    std::optional<ExchangeMessage> message;
    for (int tries = 0; !held && !message && tries < 1000; ++tries)
      message = inner_.try_receive(from, tag);
    return message;
  }
  std::string name() const override { return "held"; }
  std::atomic<bool> held{false};

 private:
  SlowExchange inner_;
};

// The first receive is given up with the group; then comes what was meant for it.
TEST(WorldOverExchange, NoReceiveTakesTheMessageOfOneGivenUpBeforeIt) {
  const auto post = std::make_shared<SlowPost>(2, 1u);
  const auto exchange = std::make_shared<HeldMessages>(post, 0);
  const WorldOptions options{.path = "exchange"};
  std::promise<void> go;
  std::promise<void> sent;
  std::thread other([&] {
    World world = World::over(std::make_shared<SlowExchange>(post, 1), options);
    go.get_future().wait();
    for (float value : {1.0f, 2.0f}) world.group().send(view_of(value), 0, 7);
    sent.set_value();
  });
  World world = World::over(exchange, options);
  exchange->held = true;
  std::array<float, 2> values{};
  Work first = world.group().irecv(view_of(values[0]), 1, 7);
  Work second = world.group().irecv(view_of(values[1]), 1, 7);
  go.set_value();
  sent.get_future().wait();
  world.group().abort("a test");
  EXPECT_THROW(first.wait(), AbortedError);
  exchange->held = false;
  EXPECT_THROW(second.wait(), AbortedError);
  EXPECT_EQ(values[1], 0.0f) << "it holds what was sent first";
  other.join();
}

/// Sends long messages only in later calls, and takes several of these, as MPI may.
class LazyExchange final : public Exchange {
 public:
  LazyExchange(std::shared_ptr<SlowPost> post, int rank) : inner_(std::move(post), rank) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    send_numbered(to, tag, bytes);
  }
  std::uint64_t send_numbered(int to, std::uint64_t tag,
                              std::span<const std::byte> bytes) override {
    kept_.push_back({to, tag, {bytes.begin(), bytes.end()}, ++sent_});
    return sent_;
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    move_on();
    return inner_.try_receive(from, tag);
  }
  bool has_left(std::uint64_t number) override {
    move_on();
    return std::ranges::find(kept_, number, &Kept::number) == kept_.end();
  }
  std::string name() const override { return "lazy"; }

 private:
  struct Kept {
    int to;
    std::uint64_t tag;
    std::vector<std::byte> bytes;
    std::uint64_t number;
  };
  void move_on() {
    if (kept_.empty() || ++calls_ % 10 != 0) return;
    inner_.send(kept_.front().to, kept_.front().tag, kept_.front().bytes);
    kept_.pop_front();
  }
  SlowExchange inner_;
  std::deque<Kept> kept_;
  std::uint64_t sent_ = 0;
  unsigned calls_ = 0;
};

TEST(WorldOverExchange, WhoHasSentNeedNotComeBack) {
  const auto post = std::make_shared<SlowPost>(2, 1u);
  const WorldOptions options{.path = "exchange"};
  std::promise<void> over;
  std::future<void> is_over = over.get_future();
  const auto in_step = [](World& world) {
    float sum = 1;
    world.group().all_reduce(view_of(sum));
    world.group().broadcast(view_of(sum), 0);
  };
  std::thread other([&] {
    World world = World::over(std::make_shared<LazyExchange>(post, 1), options);
    in_step(world);
    over.set_value();
  });
  World world = World::over(std::make_shared<LazyExchange>(post, 0), options);
  in_step(world);
  // It has no part in it any more, and calls nothing.
  EXPECT_EQ(is_over.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  other.join();
}

// One rank waits in one of its worlds; the other comes there when it has behind it what the first
// has in flight in the other world, and which takes several steps of both.
TEST(WorldOverExchange, WaitsInOneWorldMoveTheOther) {
  const auto post = std::make_shared<SlowPost>(2, 1u);
  const auto rank_main = [&](int rank) {
    const WorldOptions options{.timeout = std::chrono::seconds(20), .path = "exchange"};
    const auto exchange = std::make_shared<SlowExchange>(post, rank);
    World moved = World::over(exchange, options);
    World waited_in = World::over(exchange, options);
    std::vector<float> values(20'000, 1);
    Work work = moved.group().all_reduce_async(values);
    if (rank == 1) work.wait();
    waited_in.group().barrier();
    EXPECT_NO_THROW(work.wait());
    EXPECT_THAT(values, Each(2.0f));
  };
  std::thread other(rank_main, 1);
  rank_main(0);
  other.join();
}

TEST(WorldOverExchange, NeedsOne) { EXPECT_THROW(World::over(nullptr), UsageError); }

TEST(WorldOverExchange, RefusesPathsThatItLacks) {
  const auto post = std::make_shared<SlowPost>(2, 1u);
  const auto be_refused = [&](int rank) {
    World world = World::over(std::make_shared<SlowExchange>(post, rank), {.path = "mpi"});
    try {
      world.group().barrier();
      ADD_FAILURE() << "nothing is thrown";
    } catch (const UnsupportedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("exchange (barrier_pairwise)"));
      EXPECT_THAT(error.what(), HasSubstr("'mpi'"));
    }
  };
  std::thread other(be_refused, 1);
  be_refused(0);
  other.join();
}

TEST(WorldOverExchange, OneRankAloneNeedsNoPath) {
  const auto post = std::make_shared<SlowPost>(1, 1u);
  World world = World::over(std::make_shared<SlowExchange>(post, 0), {.path = "mpi"});
  world.group().barrier();
  EXPECT_THROW(World::over(std::make_shared<SlowExchange>(post, 0), {.path = "pigeon"}),
               ConfigError);
}

}  // namespace
}  // namespace hymn::test
