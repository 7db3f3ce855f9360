#include "tests/support/watchdog.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace hymn::test {
namespace {

// Written before the alarm is set, read by the signal handler, which must not allocate.
char message[256];
int message_length = 0;

void on_alarm(int) {
  const auto written = ::write(STDERR_FILENO, message, static_cast<std::size_t>(message_length));
  (void)written;
  ::_exit(124);
}

class Watchdog : public ::testing::EmptyTestEventListener {
 public:
  Watchdog(std::string who, unsigned seconds) : who_(std::move(who)), seconds_(seconds) {}

  void OnTestStart(const ::testing::TestInfo& test) override {
    const int length = std::snprintf(message, sizeof message, "%s: %s.%s hangs: ended after %u s\n",
                                     who_.c_str(), test.test_suite_name(), test.name(), seconds_);
    message_length = length < static_cast<int>(sizeof message) ? length : sizeof message - 1;
    ::alarm(seconds_);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { ::alarm(0); }
  // What comes after the tests (the end of MPI, for one) must not hang either.
  void OnTestProgramEnd(const ::testing::UnitTest&) override { ::alarm(seconds_); }

 private:
  std::string who_;
  unsigned seconds_;
};

}  // namespace

void install_watchdog(const std::string& who, unsigned seconds) {
  if (const char* const limit = std::getenv("TEST_LIMIT"))
    seconds = static_cast<unsigned>(std::strtoul(limit, nullptr, 10));
  std::signal(SIGALRM, on_alarm);
  ::testing::UnitTest::GetInstance()->listeners().Append(new Watchdog(who, seconds));
}

}  // namespace hymn::test
