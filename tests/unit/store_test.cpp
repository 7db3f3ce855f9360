// What holds for every store, whatever keeps its values.
#include "hymn/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <ostream>
#include <thread>

#include "tests/support/temporary_folder.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Kind {
  std::string name;
  std::function<std::shared_ptr<Store>()> make;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::shared_ptr<Store> make_file_store() {
  static TemporaryFolder folder;
  static int count = 0;
  return std::make_shared<FileStore>(folder.path("store" + std::to_string(++count)), 1);
}

std::shared_ptr<Store> make_tcp_store() {
  return std::make_shared<TcpStore>(
      TcpStoreOptions{.is_server = true, .token = TcpStore::make_token()});
}

std::shared_ptr<Store> make_prefix_store() {
  return std::make_shared<PrefixStore>("outer", std::make_shared<HashStore>());
}

class AnyStore : public ::testing::TestWithParam<Kind> {
 protected:
  const std::shared_ptr<Store> shared = GetParam().make();
  Store& store = *shared;
};

INSTANTIATE_TEST_SUITE_P(
    Stores, AnyStore,
    ::testing::Values(Kind{"hash", [] { return std::make_shared<HashStore>(); }},
                      Kind{"file", make_file_store}, Kind{"tcp", make_tcp_store},
                      Kind{"prefix", make_prefix_store}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(AnyStore, KeepsWhatWasSetLast) {
  store.set("a", "one");
  EXPECT_EQ(store.get_text("a"), "one");
  store.set("a", "another, longer one");
  EXPECT_EQ(store.get_text("a"), "another, longer one");
  store.set("a", "");
  EXPECT_EQ(store.get_text("a"), "");
  EXPECT_EQ(store.num_keys(), 1);
}

TEST_P(AnyStore, KeysAndValuesAreAnyBytes) {
  const std::string key("k\0\n\xff/", 5);
  Store::Value value;
  for (int i = 0; i < 256; ++i) value.push_back(std::byte(i));
  store.set(key, value);
  store.set("", "the empty key is one, too");
  EXPECT_EQ(store.get(key), value);
  EXPECT_EQ(store.get_text(""), "the empty key is one, too");
}

TEST_P(AnyStore, TakesTheLargestAndNoLarger) {
  const std::string key(Store::most_key_bytes - 6, 'k');  // a prefix of 6 bytes fits
  const Store::Value value(Store::most_value_bytes, std::byte{7});
  store.set(key, value);
  EXPECT_EQ(store.get(key), value);
  const std::string long_key(Store::most_key_bytes + 1, 'k');
  const Store::Value large(Store::most_value_bytes + 1);
  EXPECT_THROW(store.set(long_key, "x"), UsageError);
  EXPECT_THROW(store.get(long_key, 0s), UsageError);
  EXPECT_THROW(store.add(long_key, 1), UsageError);
  EXPECT_THROW(store.check({long_key}), UsageError);
  EXPECT_THROW(store.wait({long_key}, 0s), UsageError);
  EXPECT_THROW(store.delete_key(long_key), UsageError);
  EXPECT_THROW(store.compare_set(long_key, "", ""), UsageError);
  EXPECT_THROW(store.set("k", large), UsageError);
  EXPECT_THROW(store.compare_set("k", Store::Value(), large), UsageError);
  EXPECT_THROW(store.compare_set("k", large, Store::Value()), UsageError);
  EXPECT_EQ(store.num_keys(), 1);
}

TEST_P(AnyStore, AddsNumbers) {
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -7), -2);
  EXPECT_EQ(store.get_text("n"), "-2");
  store.set("n", "40");
  EXPECT_EQ(store.add("n", 2), 42);
  EXPECT_EQ(store.add("zero", 0), 0);
  EXPECT_TRUE(store.check({"zero"}));
}

TEST_P(AnyStore, AddsToNumbersOnly) {
  for (const std::string text : {"", "x", "1x", " 1", "99999999999999999999"}) {
    store.set("n", text);
    try {
      store.add("n", 1);
      FAIL() << "added to '" << text << "'";
    } catch (const StoreError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("is no number"), HasSubstr("remedy")));
    }
    EXPECT_EQ(store.get_text("n"), text);
  }
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(store.add("m", most), most);
  EXPECT_THROW(store.add("m", 1), StoreError);
  EXPECT_EQ(store.add("m", 0), most);
}

TEST_P(AnyStore, ComparesAndSets) {
  EXPECT_EQ(store.compare_set("c", "other", "new"), "") << "it is not there";
  EXPECT_FALSE(store.check({"c"}));
  EXPECT_EQ(store.compare_set("c", "", "first"), "first");
  EXPECT_EQ(store.compare_set("c", "", "second"), "first");
  EXPECT_EQ(store.compare_set("c", "firs", "second"), "first");
  EXPECT_EQ(store.compare_set("c", "first", "second"), "second");
  EXPECT_EQ(store.get_text("c"), "second");
}

TEST_P(AnyStore, DeletesAndCounts) {
  EXPECT_EQ(store.num_keys(), 0);
  store.set("a", "1");
  store.set("b", "2");
  EXPECT_EQ(store.num_keys(), 2);
  EXPECT_TRUE(store.check({"a", "b"}));
  EXPECT_TRUE(store.check({}));
  EXPECT_TRUE(store.delete_key("a"));
  EXPECT_FALSE(store.delete_key("a"));
  EXPECT_FALSE(store.check({"a", "b"}));
  EXPECT_TRUE(store.check({"b"}));
  EXPECT_EQ(store.num_keys(), 1);
  EXPECT_THROW(store.get("a", 0s), StoreError);
}

TEST_P(AnyStore, SaysWhatNobodyHasSet) {
  store.set("there", "x");
  try {
    store.wait({"there", "first", "second"}, 30ms);
    FAIL() << "waited for nothing";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("waited 0.030 s for the keys"), HasSubstr("'first', 'second'"),
                      Not(HasSubstr("'there'")), HasSubstr("remedy")));
  }
  try {
    store.get("nothing", 30ms);
    FAIL() << "got nothing";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the key 'nothing'")));
  }
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i) many.push_back("key " + std::to_string(i));
  try {
    store.wait(many, 0s);
    FAIL() << "waited for nothing";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("and 12 more"), Not(HasSubstr("key 15"))));
  }
}

TEST_P(AnyStore, ATimeoutOfItsOwnIsUsedWhereNoneIsGiven) {
  EXPECT_EQ(store.timeout(), Timeout(300s));
  store.set_timeout(20ms);
  EXPECT_EQ(store.timeout(), Timeout(20ms));
  EXPECT_THROW(store.get("never"), StoreError);
  EXPECT_THROW(store.wait({"never"}), StoreError);
  store.set_timeout(Timeout::none());
  EXPECT_TRUE(store.timeout().is_none());
  EXPECT_THROW(store.get("never", 20ms), StoreError);
  EXPECT_THROW(store.set_timeout(Timeout()), UsageError);
}

TEST_P(AnyStore, ThoseThatWaitAreWoken) {
  // Who is not woken finds the key when its time is over: that is too late.
  constexpr auto limit = 40s;
  const auto began = std::chrono::steady_clock::now();
  store.set_timeout(limit);
  auto got = std::async(std::launch::async, [&] { return store.get_text("late"); });
  auto waited = std::async(std::launch::async, [&] {
    store.wait({"late", "later", "latest"}, Timeout::none());
    return store.get_text("latest");
  });
  auto counted = std::async(std::launch::async, [&] { return store.get_text("number"); });
  auto swapped = std::async(std::launch::async, [&] { return store.get_text("swapped"); });
  // A wait does not keep others from the store.
  store.set("latest", "3");
  store.set("late", "1");
  EXPECT_EQ(got.get(), "1");
  store.add("number", 4);
  EXPECT_EQ(counted.get(), "4");
  store.compare_set("swapped", "", "5");
  EXPECT_EQ(swapped.get(), "5");
  store.set("later", "2");
  EXPECT_EQ(waited.get(), "3");
  EXPECT_LT(std::chrono::steady_clock::now() - began, limit / 2);
}

TEST_P(AnyStore, ManyThreadsLoseNothing) {
  constexpr int threads = 4;
  constexpr int rounds = 50;
  store.set("letters", "");
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        store.add("sum", t + 1);
        store.set("own " + std::to_string(t), std::to_string(i));
        // One letter more, whatever others add meanwhile.
        std::string seen = store.get_text("letters");
        while (true) {
          const std::string wanted = seen + static_cast<char>('a' + t);
          seen = store.compare_set("letters", seen, wanted);
          if (seen == wanted) break;
        }
      }
    });
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(store.add("sum", 0), rounds * (1 + 2 + 3 + 4));
  const std::string letters = store.get_text("letters");
  for (int t = 0; t < threads; ++t)
    EXPECT_EQ(std::count(letters.begin(), letters.end(), static_cast<char>('a' + t)), rounds);
  for (int t = 0; t < threads; ++t)
    EXPECT_EQ(store.get_text("own " + std::to_string(t)), std::to_string(rounds - 1));
  EXPECT_EQ(store.num_keys(), 2 + threads);
}

TEST(Prefix, KeepsUsersOfOneStoreApart) {
  const auto inner = std::make_shared<HashStore>();
  PrefixStore left("left", inner);
  PrefixStore right("right", inner);
  left.set("key", "1");
  right.set("key", "2");
  EXPECT_EQ(left.get_text("key"), "1");
  EXPECT_EQ(right.get_text("key"), "2");
  EXPECT_EQ(inner->get_text("left/key"), "1");
  EXPECT_EQ(left.num_keys(), 2) << "of the whole store";
  EXPECT_TRUE(left.delete_key("key"));
  EXPECT_TRUE(right.check({"key"}));
  try {
    left.get("key", 0s);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the key 'key'"));
  }
  EXPECT_THROW(PrefixStore("x", nullptr), UsageError);
}

}  // namespace
}  // namespace hymn::test
