// The store that a world has by itself.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "hymn/store.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

std::string key_of(int rank) { return "rank " + std::to_string(rank); }

RANK_TEST(WorldStore, RanksFindWhatOthersHaveSet) {
  const std::shared_ptr<Store> store = world.store();
  EXPECT_EQ(store, world.store());
  EXPECT_EQ(store->timeout(), world.group().timeout());
  store->set(key_of(world.rank()), "value " + std::to_string(world.rank()));
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(store->get_text(key_of(rank)), "value " + std::to_string(rank));
  store->add("count", world.rank() + 1);
  world.group().barrier();
  EXPECT_EQ(store->add("count", 0), world.size() * (world.size() + 1) / 2);
  world.group().barrier();
}

// Ranks come to it in any order with what else they do together.
RANK_TEST(WorldStore, IsMadeBesideOtherCalls) {
  std::int32_t sum = 1;
  Work work = world.group().all_reduce_async(view_of(sum));
  if (world.rank() % 2 == 0) work.wait();
  const std::shared_ptr<Store> store = world.store();
  work.wait();
  EXPECT_EQ(sum, world.size());
  store->set(key_of(world.rank()), "here");
  store->wait({key_of(0), key_of(world.size() - 1)});
  world.group().barrier();
}

// Of two worlds each has its own.
RANK_TEST(WorldStore, EachWorldHasItsOwn) {
  EXPECT_FALSE(world.store()->check({"of the world before"}));
  world.group().barrier();
  world.store()->set("of the world before", "set");
  world.group().barrier();
}

RANK_TEST(WorldStore, EndsWithItsWorld) {
  (void)world.store();
  world.group().barrier();
  world.destroy();
  expect_error(ErrorKind::usage, [&] { (void)world.store(); }, {"store", "destroyed"});
}

TEST(WorldStore, test_default_store_timeout_nccl) {
  on_ranks(
      [](World& world) {
        const std::shared_ptr<Store> store = world.store();
        EXPECT_EQ(store->timeout(), Timeout(1s));
        const auto get = [&] {
          for (int turn = 1;; ++turn) try {
              return (void)store->get("nonexistent key");
            } catch (const NetworkError&) {  // a server without a core for seconds answers too late
              if (turn == 5) throw;
            }
        };
        expect_error(ErrorKind::store, get,
                     {"waited 1.000 s", "'nonexistent key', which nobody has set", "timeout"});
        world.group().barrier({.timeout = 1min});
      },
      {.timeout = 1s, .init_timeout = 1min});
}

// Of what waits for nothing but an answer, too. A rank 0 that stands still gives none.
TEST(WorldStore, ItsAnswersMayTakeAsLongAsTheWorldSays) {
  if (ranks_are_threads()) return;
  on_ranks(
      [](World& world) {
        const std::shared_ptr<Store> store = world.store();
        const std::int32_t me = ::getpid();
        std::vector<std::int32_t> pids(static_cast<std::size_t>(world.size()));
        world.group().all_gather(ConstBufferView(&me, 1, DataType::int32), pids, {.timeout = 1min});
        if (world.rank() == 1) {
          ::kill(pids[0], SIGSTOP);
          const auto set_for_ever = [&] {
            for (;;) store->set("key", "value");
          };
          expect_error(ErrorKind::network, set_for_ever, {"does not answer in time"});
          ::kill(pids[0], SIGCONT);
        }
        world.group().barrier({.timeout = 1min});
      },
      {.timeout = 1s, .init_timeout = Timeout::none()});
}

}  // namespace
}  // namespace hymn::test
