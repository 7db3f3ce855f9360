// No exception leaves a thread of hymn's own.
#include "base/helper_thread.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace hymn::test {
namespace {

/// What is told of a thread that runs this; "" when nothing is.
template <class Run>
std::string told_of(Run run) {
  std::string told;
  start_helper_thread("hymn-test", run, [&](std::string_view why) { told = why; }).join();
  return told;
}

TEST(HelperThread, TellsWhatIsThrown) {
  EXPECT_EQ(told_of([] {}), "");
  EXPECT_EQ(told_of([] { throw std::runtime_error("no luck"); }), "no luck");
  EXPECT_EQ(told_of([] { throw 7; }), "something that is not a std::exception");
}

TEST(HelperThread, SurvivesWhoCannotBeTold) {
  start_helper_thread(
      "hymn-test", [] { throw std::runtime_error("no luck"); },
      [](std::string_view) { throw std::runtime_error("nor here"); })
      .join();
  EXPECT_FALSE(run_guarded([] { throw 7; }, [](std::string_view) { throw 8; }));
  EXPECT_TRUE(run_guarded([] {}, {}));
}

}  // namespace
}  // namespace hymn::test
