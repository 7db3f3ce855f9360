// FileStore between processes, some of which are killed. No thread may run where these fork.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "control/store_log.hpp"
#include "hymn/store.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  std::string error_of(const std::string& file) {
    try {
      FileStore store(file);
      return "";
    } catch (const StoreError& error) {
      return error.what();
    }
  }
  TemporaryFolder folder;
  const std::string path = folder.path("store");
};

TEST_F(Files, AreForTheirUserAlone) {
  FileStore store(path);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
}

TEST_F(Files, TwoOfOneProcessSeeEachOther) {
  FileStore one(path);
  FileStore two(path);
  one.set("a", "1");
  EXPECT_EQ(two.get_text("a", 0s), "1");
  two.delete_key("a");
  EXPECT_FALSE(one.check({"a"}));
}

TEST_F(Files, KeepTheirValuesForLaterUsers) {
  {
    FileStore(path).set("a", "1");
  }
  EXPECT_EQ(FileStore(path).get_text("a", 0s), "1");
}

TEST_F(Files, TheLastUserRemovesTheFile) {
  auto one = std::make_unique<FileStore>(path, 2);
  one->set("a", "1");
  one.reset();
  ASSERT_TRUE(std::filesystem::exists(path)) << "the second has not come yet";
  auto two = std::make_unique<FileStore>(path, 2);
  EXPECT_EQ(two->get_text("a", 0s), "1");
  two.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(FileStore(path, -1), UsageError);
}

TEST_F(Files, ProcessesShareThem) {
  constexpr int processes = 3;
  constexpr int rounds = 100;
  std::vector<std::unique_ptr<Child>> children;
  for (int p = 0; p < processes; ++p)
    children.push_back(std::make_unique<Child>([this, p] {
      FileStore store(path, processes + 1);
      for (int i = 0; i < rounds; ++i) store.add("sum", p + 1);
      store.set("done " + std::to_string(p), "yes");
      store.wait({"done 0", "done 1", "done 2", "end"}, 30s);
      return store.get_text("sum");
    }));
  auto store = std::make_unique<FileStore>(path, processes + 1);
  store->wait({"done 0", "done 1", "done 2"}, 30s);
  store->set("end", "");
  for (const auto& child : children) EXPECT_EQ(child->report(), std::to_string(rounds * 6));
  store.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

// What was forked shares its parent's open files, and with them its locks.
TEST_F(Files, AStoreMayBeUsedOnBothSidesOfAFork) {
  FileStore store(path);
  store.set("before", "1");
  constexpr int rounds = 3000;  // long enough for both to be at it together
  Wire wire;
  Child child([&] {
    wire.send("go");
    for (int i = 0; i < rounds; ++i) store.add("sum", 1);
    return store.get_text("before");
  });
  wire.receive();
  for (int i = 0; i < rounds; ++i) store.add("sum", 1);
  EXPECT_EQ(child.report(), "1");
  EXPECT_EQ(store.add("sum", 0), 2 * rounds);
}

// Each round a writer is killed somewhere in its work; what it has written of its keys must be
// whole, in the order in which it wrote.
TEST_F(Files, AKilledWriterLeavesNothingHalfDone) {
  constexpr int rounds = 40;
  FileStore store(path);
  for (int round = 0; round < rounds; ++round) {
    Wire wire;
    Child writer([&] {
      FileStore its_own(path);
      for (std::int64_t i = 1;; ++i) {
        const std::string text = std::to_string(i);
        std::string value = text;
        while (value.size() < 100000) value += "." + text;
        its_own.set("value", value);
        its_own.add("count", 1);
        if (i == 1) wire.send("go");
      }
      return std::string();
    });
    wire.receive();
    // Not always at the same place.
    usleep(static_cast<useconds_t>(500 + 137 * round));
    writer.kill();
    const std::string value = store.compare_set("value", "nothing else", "");
    if (value.empty()) continue;
    const std::string first = value.substr(0, value.find('.'));
    std::string expected = first;
    while (expected.size() < 100000) expected += "." + first;
    ASSERT_EQ(value, expected);
    store.delete_key("value");
    store.add("alive", 1);
  }
  EXPECT_GT(store.add("count", 0), 0);
  EXPECT_GT(store.add("alive", 0), 0);
  // Somebody who reads all of it from the beginning sees the same.
  FileStore later(path);
  EXPECT_EQ(later.add("count", 0), store.add("count", 0));
  EXPECT_FALSE(later.check({"value"}));
}

// Bytes behind the end are those of a writer that was killed before they counted.
TEST_F(Files, WhatDoesNotCountIsWrittenOver) {
  FileStore store(path);
  store.set("a", "1");
  {
    std::ofstream file(path, std::ios::binary | std::ios::app);
    file << std::string(1000, '\xff');
  }
  FileStore other(path);
  EXPECT_EQ(other.num_keys(), 1);
  other.set("b", "2");
  EXPECT_EQ(store.get_text("b", 0s), "2");
  EXPECT_EQ(FileStore(path).num_keys(), 2);
}

TEST_F(Files, AFileWithoutAHeaderIsNew) {
  {
    std::ofstream file(path);
  }
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  FileStore store(path);
  store.set("a", "1");
  EXPECT_EQ(FileStore(path).get_text("a", 0s), "1");
}

TEST_F(Files, ThatAreSomethingElseAreRefused) {
  {
    std::ofstream file(path);
    file << "a letter to somebody, which is longer than any header";
  }
  EXPECT_THAT(error_of(path),
              AllOf(HasSubstr(path), HasSubstr("holds something other than a store")));
  EXPECT_THAT(error_of(folder.path("no/such/folder")), HasSubstr("No such file"));
  EXPECT_THAT(error_of(folder.path("")), HasSubstr("Is a directory"));
  ASSERT_EQ(mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder.path("fifo")), HasSubstr("is not a regular file"));
  std::filesystem::create_symlink(folder.path("target"), folder.path("link"));
  EXPECT_THAT(error_of(folder.path("link")), HasSubstr("cannot be opened"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("target")));
}

TEST_F(Files, OfAnotherUserAreRefused) {
  {
    FileStore store(path);
  }
  if (chown(path.c_str(), 12345, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give files away";
  EXPECT_THAT(error_of(path), HasSubstr("belongs to user 12345"));
}

TEST_F(Files, DamageIsSaid) {
  {
    FileStore(path).set("key", "value");
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 2);
  EXPECT_THAT(error_of(path), HasSubstr("shorter than its header says"));
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(24);
    file << std::string(8, '\x7f');
  }
  EXPECT_THAT(error_of(path), HasSubstr("is damaged"));
}

TEST_F(Files, AStoppedProcessIsNotWaitedForForEver) {
  FileStore store(path);
  Wire wire;
  Child holder([&] {
    StoreLog log(path);
    const StoreLog::Lock lock(log, StoreLog::Access::write, Deadline::never());
    wire.send("locked");
    pause();
    return std::string();
  });
  wire.receive();
  store.set_timeout(50ms);
  try {
    store.set("a", "1");
    FAIL() << "wrote where another has locked";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("keeps it locked")));
  }
  EXPECT_THROW(store.get("a"), StoreError);
  holder.kill();
  store.set_timeout(20s);
  store.set("a", "1");
  EXPECT_EQ(store.get_text("a"), "1");
}

}  // namespace
}  // namespace hymn::test
