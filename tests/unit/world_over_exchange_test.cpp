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

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// Throws where a rank of a forked process could not use gtest's checks.
void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what + " went wrong");
}

std::vector<std::int32_t> numbers(std::size_t count, int first) {
  std::vector<std::int32_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = first + static_cast<int>(i);
  return made;
}

void try_reductions(ProcessGroup& group, std::size_t count) {
  const int ranks = group.size();
  std::vector<std::int64_t> sum(count, group.rank() + 1);
  group.all_reduce(sum);
  require(sum == std::vector<std::int64_t>(count, ranks * (ranks + 1) / 2), "all_reduce");
  std::vector<float16> halves(count, float16(static_cast<float>(group.rank() + 1)));
  group.all_reduce(halves, ReduceOp::max);
  for (const float16& half : halves)
    require(static_cast<float>(half) == static_cast<float>(ranks), "all_reduce of halves");
  const int root = group.global_rank(ranks - 1);
  std::vector<double> product(count, 2.0);
  std::vector<double> result(count, -1.0);
  group.reduce(product, result, root, ReduceOp::product);
  const double expected = group.rank() == ranks - 1 ? static_cast<double>(1 << ranks) : -1.0;
  require(result == std::vector<double>(count, expected), "reduce");
  std::vector<std::int32_t> share(count);
  const auto whole = numbers(count * as_size(ranks), 0);
  group.reduce_scatter(whole, share);
  for (std::size_t i = 0; i < count; ++i)
    require(share[i] == ranks * whole[as_size(group.rank()) * count + i], "reduce_scatter");
}

void try_moves(ProcessGroup& group, std::size_t count) {
  const int root = group.global_rank(0);
  const int base = static_cast<int>(count);
  const auto mine = numbers(count, group.rank() * base);
  const auto all = numbers(count * as_size(group.size()), 0);
  std::vector<std::int32_t> buffer = group.rank() == 0 ? numbers(count, 5) : mine;
  group.broadcast(buffer, root);
  require(buffer == numbers(count, 5), "broadcast");
  std::vector<std::int32_t> gathered(all.size());
  group.all_gather(mine, gathered);
  require(gathered == all, "all_gather");
  gathered.assign(all.size(), -1);
  group.gather(mine, gathered, root);
  require(group.rank() != 0 || gathered == all, "gather");
  group.scatter(all, buffer, root);
  require(buffer == mine, "scatter");
  std::vector<std::int32_t> to_all(all.size(), group.rank());
  group.all_to_all(to_all, gathered);
  for (std::size_t i = 0; i < all.size(); ++i)
    require(gathered[i] == static_cast<int>(i / count), "all_to_all");
}

void try_messages(World& world) {
  ProcessGroup& group = world.group();
  if (world.rank() == 0) {
    std::vector<int> heard(as_size(world.size()), 0);
    for (int i = 1; i < world.size(); ++i) {
      std::int32_t value = 0;
      const RecvStatus status = group.recv(view_of(value), any_source, 3);
      require(value == status.source * 11 && status.tag == 3 && status.count == 1, "any_source");
      ++heard[as_size(status.source)];
    }
    require(std::count(heard.begin() + 1, heard.end(), 1) == world.size() - 1, "any_source");
  } else {
    const std::int32_t value = world.rank() * 11;
    group.send(view_of(value), 0, 3);
  }
  // A ring of asynchronous messages, out of the order of their tags.
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  if (world.size() == 1) return;
  const std::vector<float> first(1000, 1.0f);
  const std::vector<float> second(1000, 2.0f);
  std::vector<float> in_first(1000);
  std::vector<float> in_second(1000);
  const std::vector<P2POp> operations = {P2POp::send(first, next, 1), P2POp::send(second, next, 2),
                                         P2POp::recv(in_second, before, 2),
                                         P2POp::recv(in_first, before, 1)};
  group.batch_isend_irecv(operations).wait();
  require(in_first == first && in_second == second, "batch");
}

void try_pairs(World& world) {
  for (int low = 0; low < world.size(); ++low) {
    for (int high = low + 1; high < world.size(); ++high) {
      if (world.rank() != low && world.rank() != high) continue;
      ProcessGroup pair = world.new_group({high, low}, {.local_sync = true});
      try_reductions(pair, 7);
    }
  }
}

void exercise(World& world) {
  ProcessGroup& group = world.group();
  for (const std::size_t count : {1, 63, 20'000}) {
    try_reductions(group, count);
    try_moves(group, count);
  }
  try_messages(world);
  std::vector<int> some;
  for (int rank = 0; rank < world.size(); rank += 2) some.push_back(rank);
  ProcessGroup even = world.new_group(some);
  if (even.is_member()) {
    try_reductions(even, 7);
    try_moves(even, 7);
  }
  try_pairs(world);
  std::vector<float> values(500, 1.0f);
  Work work = group.all_reduce_async(values);
  group.barrier();
  work.wait();
  require(values[499] == static_cast<float>(world.size()), "all_reduce_async");
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

/// One socket between every two ranks: sockets[i][j] is i's end of the one to j.
std::vector<std::vector<int>> connect_all(int ranks) {
  std::vector<std::vector<int>> sockets(as_size(ranks), std::vector<int>(as_size(ranks), -1));
  for (std::size_t i = 0; i < as_size(ranks); ++i) {
    for (std::size_t j = i + 1; j < as_size(ranks); ++j) {
      int ends[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) ADD_FAILURE() << "no socket";
      sockets[i][j] = ends[0];
      sockets[j][i] = ends[1];
    }
  }
  return sockets;
}

void close_others(const std::vector<std::vector<int>>& sockets, int mine) {
  for (int rank = 0; rank < static_cast<int>(sockets.size()); ++rank)
    for (const int socket : sockets[as_size(rank)])
      if (rank != mine && socket >= 0) ::close(socket);
}

/// Each rank a process of its own; how each has ended.
std::vector<int> run_processes(int ranks, void (*body)(World&), const WorldOptions& options = {}) {
  const auto sockets = connect_all(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      close_others(sockets, rank);
      const std::string complaint =
          run_rank(std::make_shared<SocketExchange>(rank, sockets[as_size(rank)]), body, options);
      if (!complaint.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, complaint.c_str());
      ::_exit(complaint.empty() ? 0 : 1);
    }
    EXPECT_GT(child, 0);
    children.push_back(child);
  }
  close_others(sockets, -1);
  std::vector<int> endings;
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    endings.push_back(status);
  }
  return endings;
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
