// Work in a child process: what it returns, and how it may fail.
#include "topology/apart.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace hymn::test {
namespace {

TEST(Apart, ReturnsWhatTheWorkReturns) {
  EXPECT_EQ(run_apart([] { return std::string("result"); }), "result");
  EXPECT_EQ(run_apart([] { return std::string(); }), "");
  const std::string large(std::size_t{5} << 20, 'x');
  EXPECT_EQ(run_apart([&] { return large; }), large);
}

TEST(Apart, HappensInAnotherProcess) {
  int value = 1;
  EXPECT_EQ(run_apart([&] {
              value = 2;
              return std::to_string(getppid());
            }),
            std::to_string(getpid()));
  EXPECT_EQ(value, 1);
}

TEST(Apart, ACrashIsNoResult) {
  EXPECT_FALSE(run_apart([]() -> std::string {
    raise(SIGSEGV);
    return "survived";
  }));
  EXPECT_FALSE(run_apart([]() -> std::string { std::abort(); }));
  EXPECT_FALSE(run_apart([]() -> std::string { throw std::runtime_error("no"); }));
  EXPECT_FALSE(run_apart([]() -> std::string { _exit(0); }));
}

TEST(Apart, MemoryBeyondTheLimitIsNoResult) {
  EXPECT_FALSE(run_apart([] {
    const std::size_t size = std::size_t{3} << 30;
    std::string large(size, 'x');
    // Otherwise clang sees that nobody needs it, and leaves it out.
    const volatile char& last = large.back();
    return std::string(1, last);
  }));
}

TEST(Apart, NothingReachesStderr) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_apart([] {
              std::fputs("noise\n", stderr);
              std::fflush(stderr);
              return std::string("quiet");
            }),
            "quiet");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Apart, WorksWhereChildrenAreNotWaitedFor) {
  struct sigaction before{};
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGCHLD, &ignore, &before), 0);
  const auto result = run_apart([] { return std::string("result"); });
  ASSERT_EQ(sigaction(SIGCHLD, &before, nullptr), 0);
  EXPECT_EQ(result, "result");
}

}  // namespace
}  // namespace hymn::test
