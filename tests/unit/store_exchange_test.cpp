// Ranks that find each other through a store, and a world made of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "hymn/hymn.hpp"
#include "hymn/store.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/variable.hpp"
#include "tests/unit/text_bytes.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string next(Exchange& exchange, int from, std::uint64_t tag) {
  const auto message = exchange.try_receive(from, tag);
  if (!message) return "nothing";
  return std::to_string(message->source) + " " + text_of(message->bytes);
}

TEST(ExchangeOverAStore, KeepsMessagesApartAndInOrder) {
  const auto store = std::make_shared<HashStore>();
  const auto zero = exchange_over(store, 0, 3);
  const auto one = exchange_over(store, 1, 3);
  const auto two = exchange_over(store, 2, 3);
  EXPECT_EQ(zero->rank(), 0);
  EXPECT_EQ(zero->size(), 3);
  EXPECT_EQ(next(*one, 0, 5), "nothing");
  zero->send(1, 5, bytes_of("a"));
  zero->send(1, 6, bytes_of("b"));
  zero->send(1, 5, bytes_of(""));
  zero->send(2, 5, bytes_of("for two"));
  two->send(1, 6, bytes_of("c"));
  one->send(1, 5, bytes_of("self"));
  EXPECT_EQ(next(*one, 2, 5), "nothing");
  EXPECT_EQ(next(*one, 2, 6), "2 c");
  EXPECT_EQ(next(*one, 0, 5), "0 a");
  EXPECT_EQ(next(*one, 0, 5), "0 ");
  EXPECT_EQ(next(*one, 0, 5), "nothing");
  EXPECT_EQ(next(*one, 1, 5), "1 self");
  EXPECT_EQ(next(*one, Exchange::from_anyone, 6), "0 b");
  EXPECT_EQ(next(*one, Exchange::from_anyone, 6), "nothing");
  EXPECT_EQ(next(*two, Exchange::from_anyone, 5), "0 for two");
  EXPECT_EQ(store->num_keys(), 0) << "what was received is gone";
}

TEST(ExchangeOverAStore, MessagesMayBeLargerThanValues) {
  const auto store = std::make_shared<HashStore>();
  const auto zero = exchange_over(store, 0, 2);
  const auto one = exchange_over(store, 1, 2);
  std::vector<std::byte> large(2 * Store::most_value_bytes + 5);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = std::byte(i % 251);
  zero->send(1, 1, large);
  zero->send(1, 1, bytes_of("next"));
  EXPECT_EQ(one->try_receive(0, 1)->bytes, large);
  EXPECT_EQ(next(*one, 0, 1), "0 next");
}

TEST(ExchangeOverAStore, NeedsWhatCanBe) {
  const auto store = std::make_shared<HashStore>();
  EXPECT_THROW(exchange_over(nullptr, 0, 1), UsageError);
  EXPECT_THROW(exchange_over(store, 2, 2), UsageError);
  EXPECT_THROW(exchange_over(store, -1, 2), UsageError);
  const auto exchange = exchange_over(store, 0, 2);
  EXPECT_THROW(exchange->send(2, 0, {}), UsageError);
  EXPECT_THROW(exchange->try_receive(-2, 0), UsageError);
}

/// Each rank is a thread with a store of its own, as a process would have.
void expect_world(const std::function<std::shared_ptr<Store>()>& store) {
  constexpr int ranks = 3;
  std::vector<std::thread> threads;
  std::vector<std::int64_t> sums(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      World world = World::over(exchange_over(store(), rank, ranks), {.timeout = 20s});
      std::vector<std::int64_t> value = {rank + 1};
      world.group().all_reduce(value);
      sums[static_cast<std::size_t>(rank)] = value[0];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ::testing::Each(6));
}

TEST(ExchangeOverAStore, MakesAWorld) {
  const auto store = std::make_shared<HashStore>();
  expect_world([&] { return std::make_shared<PrefixStore>("first", store); });
  expect_world([&] { return std::make_shared<PrefixStore>("second", store); });
}

// A file that nobody writes to for a while, and a world that has nothing to do, live on.
TEST(ExchangeOverAStore, test_file_store_check) {
  constexpr int ranks = 2;
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto store = std::make_shared<FileStore>(folder.path("store"), ranks);
      World world = World::over(exchange_over(store, rank, ranks), {.timeout = 1min});
      EXPECT_EQ(world.rank(), rank);
      EXPECT_EQ(world.size(), ranks);
      std::this_thread::sleep_for(500ms);
      std::int64_t sum = rank + 1;
      world.group().all_reduce(view_of(sum));
      EXPECT_EQ(sum, 3);
      // Its own store is another one, over TCP.
      world.store()->set("of " + std::to_string(rank), "here");
      EXPECT_EQ(world.store()->get_text("of " + std::to_string(1 - rank)), "here");
      EXPECT_FALSE(store->check({"of 0"}));
      world.group().barrier();
      world.destroy();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(std::filesystem::exists(folder.path("store"))) << "both have left";
}

// Rank 0 cannot listen where it should; the others wait for its word, and get it.
TEST(ExchangeOverAStore, AWorldsStoreThatNobodyServesIsAnErrorOnAllRanks) {
  const Variable interface("HYMN_INTERFACE", "nosuch0");
  const Variable control("HYMN_CONTROL", "0");
  constexpr int ranks = 2;
  const auto shared = std::make_shared<HashStore>();
  std::vector<std::thread> threads;
  std::vector<std::string> told(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      World world = World::over(exchange_over(shared, rank, ranks), {.timeout = 1min});
      try {
        (void)world.store();
      } catch (const StoreError& error) {
        told[static_cast<std::size_t>(rank)] = error.what();
      }
      world.group().barrier();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(told, ::testing::Each(::testing::AllOf(
                        ::testing::HasSubstr("rank 0 cannot serve the world's store"),
                        ::testing::HasSubstr("nosuch0"))));
}

// --- The store of a world that has nothing but an exchange

/// Runs two ranks as threads, whose worlds do not know that they share memory.
void run_apart(const std::function<void(World&)>& body, const WorldOptions& options = {}) {
  const auto store = std::make_shared<HashStore>();
  const auto run = [&](int rank) {
    World world = World::over(exchange_over(store, rank, 2), options);
    body(world);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Rank 1 comes to the store only when the hook has run, which it does while rank 0 waits for it.
TEST(StoreOfAWorld, IsRefusedToACallbackOfTheThreadThatMakesIt) {
  std::promise<void> started;
  std::promise<std::string> told;
  std::string text;
  run_apart([&](World& world) {
    std::int32_t value = 1;
    if (world.rank() == 0) {
      ProcessGroup& group = world.group();
      group.on_completion([&, done = false](const CompletionInfo&) mutable {
        if (!std::exchange(done, true)) told.set_value(error_of([&] { (void)world.store(); }));
      });
      Work work = group.all_reduce_async(view_of(value));
      started.set_value();
      world.store()->set("key", "value");
      work.wait();
    } else {
      started.get_future().wait();
      world.group().all_reduce(view_of(value));
      text = told.get_future().get();
      EXPECT_EQ(world.store()->get_text("key"), "value");
    }
    world.group().barrier();
  });
  EXPECT_THAT(text, HasSubstr("a callback asks for the world's store while its thread waits"));
  EXPECT_THAT(text, HasSubstr("rank 0"));
}

TEST(StoreOfAWorld, MakingItEndsWithTheWorld) {
  run_apart(
      [](World& world) {
        world.group().barrier();
        if (world.rank() == 1) return world.destroy();
        std::string text;
        std::promise<void> asks;
        std::thread other([&] {
          asks.set_value();
          text = error_of([&] { (void)world.store(); });
        });
        asks.get_future().wait();
        world.destroy();
        other.join();
        EXPECT_THAT(text, HasSubstr("the world has been destroyed"));
      },
      {.init_timeout = 20s});
}

TEST(StoreOfAWorld, ThreadsOfARankShareIt) {
  run_apart([](World& world) {
    std::shared_ptr<Store> of_other;
    std::thread other([&] { of_other = world.store(); });
    EXPECT_NE(world.store(), nullptr);
    other.join();
    EXPECT_EQ(of_other, world.store());
    world.group().barrier();
  });
}

TEST(StoreOfAWorld, IsMadeByALaterCallWhenARankHasNotCome) {
  run_apart(
      [](World& world) {
        if (world.rank() == 0) {
          EXPECT_THROW((void)world.store(), TimeoutError);
        }
        world.group().barrier();
        if (world.rank() == 1) {
          EXPECT_THROW((void)world.store(), TimeoutError);
        }
        world.group().barrier();
        world.store()->set(std::to_string(world.rank()), "here");
        EXPECT_EQ(world.store()->get_text(std::to_string(1 - world.rank())), "here");
        world.group().barrier();
      },
      // Only rank 0's first call waits so long; all that is made must be made within it.
      {.timeout = 30s, .init_timeout = 6s});
}

TEST(ExchangeOverAStore, MakesAWorldOverTcp) {
  const std::string token = TcpStore::make_token();
  const TcpStore server({.is_server = true, .token = token});
  expect_world([&] {
    return std::make_shared<TcpStore>(
        TcpStoreOptions{.port = server.port(), .token = token, .timeout = 20s});
  });
}

}  // namespace
}  // namespace hymn::test
