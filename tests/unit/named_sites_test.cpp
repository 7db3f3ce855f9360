// Places in programs that are not compiled, in the place of addresses.
#include "recorder/named_sites.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "hymn/call_site.hpp"
#include "recorder/call_frames.hpp"

namespace hymn::test {
namespace {

TEST(NamedSites, AreTheSameForTheSamePlace) {
  NamedSites sites;
  const std::uint64_t first = sites.add("/a/train.py", 42);
  EXPECT_EQ(sites.add("/a/train.py", 42), first);
  EXPECT_NE(sites.add("/a/train.py", 43), first);
  EXPECT_NE(sites.add("/b/train.py", 42), first);
  const auto place = named_site(sites.table(), first);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->file, "/a/train.py");
  EXPECT_EQ(place->line, 42);
}

TEST(NamedSites, AreNoAddresses) {
  NamedSites sites;
  const std::uint64_t first = sites.add("train.py", 1);
  const auto address = reinterpret_cast<std::uintptr_t>(&first);
  EXPECT_TRUE(is_named_site(first));
  EXPECT_FALSE(is_named_site(address));
  for (const std::uint64_t none : {std::uint64_t{0}, address, first + 1, ~std::uint64_t{0}})
    EXPECT_FALSE(named_site(sites.table(), none)) << none;
}

TEST(NamedSites, OfALongPathTheEndIsKept) {
  NamedSites sites;
  const std::string path = std::string(300, 'x') + "/train.py";
  const auto place = named_site(sites.table(), sites.add(path, 7));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->file, path.substr(path.size() - (NamedSite::file_text - 1)));
  EXPECT_EQ(sites.add(path, 7), sites.add(path, 7));
}

TEST(NamedSites, MayBeNames) {
  const CallSite site = call_site("bucket 3 (conv1.weight and 5 more)");
  EXPECT_EQ(call_site("bucket 3 (conv1.weight and 5 more)"), site);
  EXPECT_NE(site, CallSite::of_the_call);
  EXPECT_EQ(call_site(""), CallSite::of_the_call);
  EXPECT_EQ(site_text(static_cast<std::uint64_t>(site)), "bucket 3 (conv1.weight and 5 more)");
  const CallFrame frame = frames_at(static_cast<std::uint64_t>(site)).front();
  EXPECT_EQ(frame.name, "bucket 3 (conv1.weight and 5 more)");
  EXPECT_EQ(frame.file, "");
}

TEST(NamedSites, ThatFindNoRoomAreNone) {
  NamedSites sites;
  int line = 1;
  while (sites.add("train.py", line) != 0) ++line;
  EXPECT_EQ(static_cast<std::size_t>(line - 1), sites.table().size());
  EXPECT_NE(sites.add("train.py", 1), 0U) << "those that are there stay";
}

TEST(NamedSites, AreCopiedWhileACopyLives) {
  NamedSites sites;
  const std::uint64_t before = sites.add("before.py", 1);
  const auto copy = std::make_unique<NamedSiteTable>();
  sites.copy_to(*copy);
  const std::uint64_t during = sites.add("during.py", 2);
  sites.stop_copying_to(*copy);
  const std::uint64_t after = sites.add("after.py", 3);
  EXPECT_EQ(named_site(*copy, before)->file, "before.py");
  EXPECT_EQ(named_site(*copy, during)->line, 2);
  EXPECT_FALSE(named_site(*copy, after));
}

// Another process's are looked up in what it shows of them.
TEST(NamedSites, AreTextsOfCallSites) {
  const std::uint64_t own = NamedSites::of_process().add("/a/own.py", 5);
  EXPECT_EQ(site_text(own), "own.py:5");
  NamedSites others;
  const std::uint64_t theirs = others.add("/a/theirs.py", 6);
  EXPECT_EQ(site_text(theirs, {.named = &others.table()}), "theirs.py:6");
}

/// Whether a child made by fork() has added a place.
bool child_adds() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(NamedSites::of_process().add("child.py", 1) == 0 ? 1 : 0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(NamedSites, AreAddedInAChildThoughAThreadOfItsParentAddsMeanwhile) {
  std::atomic<bool> is_over{false};
  std::thread busy([&] {
    while (!is_over) NamedSites::of_process().add("busy.py", 1);
  });
  bool all_have = true;
  for (int i = 0; i < 100 && all_have; ++i) all_have = child_adds();
  is_over = true;
  busy.join();
  EXPECT_TRUE(all_have);
}

}  // namespace
}  // namespace hymn::test
