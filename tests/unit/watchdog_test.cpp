// What a process does about failures by itself; and who watches that it can.
#include "recorder/watchdog.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/support/temporary_folder.hpp"
#include "tests/unit/fake_clock.hpp"

namespace hymn::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A watchdog that tells what it does, one line each.
class WatchdogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options = {.rank = 3, .dumps = {.base = (folder / "trace_").string()}, .clock = &clock};
  }
  void TearDown() override { watchdog.reset(); }
  void make() {
    WatchdogActions actions;
    actions.dump = [this](const Incident& incident) {
      if (dump_fails) throw std::runtime_error("no memory");
      did.push_back("dump: " + incident.reason);
      return incident.trigger + " " + incident.reason;
    };
    actions.warn = [this](std::string_view text) { did.push_back("warn: " + std::string(text)); };
    actions.flush = [this] { did.push_back("flush"); };
    actions.abort_process = [this] { did.push_back("abort"); };
    watchdog = std::make_unique<Watchdog>(options, std::move(actions));
  }
  std::string dumped() const {
    std::ifstream file(folder / "trace_3");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path pipe() const { return folder / "trace_3.pipe"; }
  void write_to_pipe() const {
    const int end = open(pipe().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(end, 0);
    EXPECT_EQ(write(end, "1\n", 2), 2);
    close(end);
  }
  std::vector<std::string> take() { return std::exchange(did, {}); }

  FakeClock clock;
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  WatchdogOptions options;
  std::vector<std::string> did;
  bool dump_fails = false;
  std::unique_ptr<Watchdog> watchdog;
};

TEST_F(WatchdogTest, DumpsOncePerIncident) {
  make();
  EXPECT_TRUE(watchdog->dump({"timeout", "first"}));
  EXPECT_EQ(dumped(), "timeout first");
  EXPECT_FALSE(watchdog->dump({"abort", "what follows"}));
  clock.advance(9999ms);
  for (const char* trigger : {"death", "error", "abort", "request", "timeout"})
    EXPECT_FALSE(watchdog->dump({trigger, "what follows"})) << trigger;
  EXPECT_EQ(dumped(), "timeout first") << "how it began";
  clock.advance(1ms);
  EXPECT_TRUE(watchdog->dump({"death", "another"}));
  EXPECT_EQ(dumped(), "death another");
}

TEST_F(WatchdogTest, DumpsThatAreAskedForAreAlwaysMade) {
  make();
  EXPECT_TRUE(watchdog->dump({"timeout", "first"}));
  EXPECT_TRUE(watchdog->dump({"call", "by the program", true}));
  EXPECT_EQ(dumped(), "call by the program");
  EXPECT_TRUE(watchdog->dump({"pipe", "by somebody", true}));
  EXPECT_EQ(dumped(), "pipe by somebody");
  EXPECT_FALSE(watchdog->dump({"death", "what follows"}));
}

TEST_F(WatchdogTest, WithoutAPlaceNothingIsDumped) {
  options.dumps.base.clear();
  make();
  watchdog->beat();
  EXPECT_FALSE(watchdog->dump({"call", "by the program"}));
  EXPECT_THAT(did, IsEmpty());
}

TEST_F(WatchdogTest, AFailedDumpIsToldAndDoesNotCount) {
  make();
  dump_fails = true;
  EXPECT_FALSE(watchdog->dump({"timeout", "first"}));
  EXPECT_THAT(take(), ElementsAre(HasSubstr("could not be written: no memory")));
  dump_fails = false;
  EXPECT_TRUE(watchdog->dump({"timeout", "second"}));
}

TEST_F(WatchdogTest, ListensToItsPipe) {
  make();
  EXPECT_FALSE(fs::exists(pipe())) << "nobody would read it";
  watchdog->beat();
  ASSERT_TRUE(fs::is_fifo(pipe()));
  watchdog->beat();
  EXPECT_THAT(did, IsEmpty());
  write_to_pipe();
  write_to_pipe();
  watchdog->beat();
  EXPECT_THAT(dumped(), HasSubstr("pipe "));
  EXPECT_EQ(take().size(), 1u) << "one dump for all who asked";
  watchdog->beat();
  EXPECT_THAT(did, IsEmpty());
  watchdog->end();
  EXPECT_FALSE(fs::exists(pipe()));
}

TEST_F(WatchdogTest, WithoutAPipeItGoesOn) {
  std::ofstream(pipe()) << "somebody's file";
  make();
  watchdog->beat();
  EXPECT_THAT(take(), ElementsAre(HasSubstr("dumps cannot be requested")));
  watchdog->beat();
  EXPECT_THAT(did, IsEmpty()) << "it is said once";
  EXPECT_TRUE(watchdog->dump({"call", "by the program"}));
  EXPECT_TRUE(fs::is_regular_file(pipe()));
}

TEST_F(WatchdogTest, PoliciesThatLeaveTheProcessAlone) {
  for (const auto policy : {OnFailure::report, OnFailure::clean_up}) {
    options.policy = policy;
    make();
    EXPECT_EQ(watchdog->policy(), policy);
    watchdog->failure({"abort", "why"});
    EXPECT_THAT(take(), ElementsAre("dump: why"));
  }
}

TEST_F(WatchdogTest, TearDownTellsOthersAndEndsTheProcess) {
  options.policy = OnFailure::tear_down;
  make();
  watchdog->failure({"abort", "why"});
  EXPECT_THAT(take(),
              ElementsAre("dump: why", HasSubstr("the process ends: why"), "flush", "abort"));
  // There was a dump, but still this is the end.
  watchdog->failure({"abort", "again"});
  EXPECT_THAT(take(), ElementsAre(HasSubstr("again"), "flush", "abort"));
}

TEST_F(WatchdogTest, TearDownNeedsNoDump) {
  options.policy = OnFailure::tear_down;
  make();
  dump_fails = true;
  watchdog->failure({"abort", "why"});
  EXPECT_THAT(take(), ElementsAre(HasSubstr("could not be written"), HasSubstr("the process ends"),
                                  "flush", "abort"));
}

TEST_F(WatchdogTest, NothingIsAFailureAfterTheEnd) {
  options.policy = OnFailure::tear_down;
  make();
  watchdog->beat();
  EXPECT_FALSE(watchdog->has_ended());
  watchdog->end();
  EXPECT_TRUE(watchdog->has_ended());
  watchdog->beat();
  watchdog->failure({"abort", "why"});
  EXPECT_FALSE(watchdog->dump({"call", "by the program"}));
  EXPECT_THAT(did, IsEmpty());
  EXPECT_FALSE(fs::exists(pipe()));
  EXPECT_EQ(dumped(), "");
  watchdog->end();
}

TEST_F(WatchdogTest, EndsWithoutHavingBegun) {
  make();
  watchdog->end();
  watchdog->beat();
  EXPECT_FALSE(fs::exists(pipe()));
}

/// The life of a process whose watchdog beats once and then hangs, within what holds its lock.
[[noreturn]] void hang(const WatchdogOptions& options) {
  Watchdog watchdog(
      options,
      {.dump = [](const Incident& incident) { return incident.trigger; },
       .warn = [](std::string_view text) { std::fputs(std::string(text).c_str(), stderr); },
       .flush = [] {},
       .abort_process = [] { std::abort(); }});
  watchdog.beat();
  while (true) pause();
}

TEST_F(WatchdogTest, IsWatchedItself) {
  options.monitor_timeout = 200ms;
  EXPECT_EXIT(hang(options), ::testing::KilledBySignal(SIGABRT), "hymn's watchdog thread has hung");
  EXPECT_EQ(dumped(), "watchdog");
}

}  // namespace
}  // namespace hymn::test
