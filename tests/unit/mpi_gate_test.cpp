// The door to MPI: when it has closed, nobody is inside.
#include "p2p/mpi/mpi_gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class MpiGateTest : public ::testing::TestWithParam<ThreadLevel> {
 protected:
  MpiGate gate{GetParam(), std::this_thread::get_id()};
};

TEST_P(MpiGateTest, ClosesWhenAllHaveLeft) {
  std::atomic<bool> inside{false};
  std::atomic<bool> left{false};
  std::thread other([&] {
    const MpiGate::Entry entry(gate);
    inside = true;
    std::this_thread::sleep_for(100ms);
    left = true;
  });
  while (!inside) std::this_thread::yield();
  // Who has lost its core may stay inside for longer than one close() waits.
  EXPECT_TRUE(gate.close() || gate.close() || gate.close());
  EXPECT_TRUE(left);
  other.join();
  EXPECT_FALSE(gate.may_enter());
}

TEST_P(MpiGateTest, NobodyIsInsideWhenItHasClosed) {
  std::atomic<int> inside{0};
  std::atomic<int> refused{0};
  std::atomic<int> entries{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      try {
        while (true) {
          const MpiGate::Entry entry(gate);
          ++inside;
          ++entries;
          --inside;
        }
      } catch (const UsageError&) {
        ++refused;
      }
    });
  while (entries < 1000) std::this_thread::yield();
  EXPECT_TRUE(gate.close() || gate.close() || gate.close()) << "for longer than a core is lost";
  for (int looks = 0; looks < 1000; ++looks) ASSERT_EQ(inside, 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 3);
}

TEST_P(MpiGateTest, SaysWhoStaysInside) {
  std::atomic<bool> inside{false};
  std::atomic<bool> may_leave{false};
  std::thread other([&] {
    const MpiGate::Entry entry(gate);
    inside = true;
    while (!may_leave) std::this_thread::sleep_for(1ms);
  });
  while (!inside) std::this_thread::yield();
  EXPECT_FALSE(gate.close());
  may_leave = true;
  other.join();
  EXPECT_TRUE(gate.close());
}

TEST_P(MpiGateTest, TellsWhyItIsClosed) {
  {
    const MpiGate::Entry entry(gate);
  }
  const auto refusal = [&] {
    try {
      const MpiGate::Entry entry(gate);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_TRUE(gate.close());
  EXPECT_THAT(refusal(), HasSubstr("MPI has been finalized"));
  gate.close_in_child();
  EXPECT_FALSE(gate.is_open());
  EXPECT_THAT(refusal(), HasSubstr("made by fork()"));
}

INSTANTIATE_TEST_SUITE_P(Levels, MpiGateTest,
                         ::testing::Values(ThreadLevel::serialized, ThreadLevel::multiple));

}  // namespace
}  // namespace hymn::test
