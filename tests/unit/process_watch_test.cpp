// Other processes of this host: seen as they end, stop and go on.
#include "control/process_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/child.hpp"
#include "tests/unit/control_client_scene.hpp"
#include "tests/unit/link_scene.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string wait_for_ever() {
  while (true) pause();
}

/// Waits until the child has ended, stopped or gone on; its parent has not asked about it.
void await(const Child& child, int what) {
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, what | WNOWAIT), 0);
}

class ProcessWatchTest : public ::testing::Test {
 protected:
  asio::io_context io;
  std::vector<int> ended;
  std::vector<std::string> ends;
  std::optional<ProcessWatch> watch{std::in_place, io, [this](int number, const std::string& how) {
                                      ended.push_back(number);
                                      ends.push_back(how);
                                    }};
};

TEST_F(ProcessWatchTest, SeesWhoIsKilledOnce) {
  Child one(wait_for_ever);
  Child other(wait_for_ever);
  ASSERT_TRUE(watch->watch(5, one.pid()));
  ASSERT_TRUE(watch->watch(6, other.pid()));
  io.poll();
  EXPECT_THAT(ended, IsEmpty());
  ::kill(one.pid(), SIGKILL);
  ASSERT_TRUE(turn_until(io, [&] { return !ended.empty(); }));
  one.kill();
  turn_for(io, 5ms);
  EXPECT_THAT(ended, ElementsAre(5));
}

TEST_F(ProcessWatchTest, SeesWhoHasEndedAlready) {
  Child child([] { return std::string(); });
  await(child, WEXITED);
  ASSERT_TRUE(watch->watch(5, child.pid()));
  EXPECT_TRUE(turn_until(io, [&] { return !ended.empty(); }));
}

TEST_F(ProcessWatchTest, WhoIsNotThereCannotBeWatched) {
  Child child([] { return std::string(); });
  child.report();
  EXPECT_FALSE(watch->watch(5, child.pid()));
  EXPECT_FALSE(watch->watch(5, -1));
}

TEST_F(ProcessWatchTest, ANumberIsWatchedOnce) {
  Child first(wait_for_ever);
  Child second(wait_for_ever);
  ASSERT_TRUE(watch->watch(5, first.pid()));
  ASSERT_TRUE(watch->watch(5, second.pid()));
  second.kill();
  turn_for(io, 5ms);
  EXPECT_THAT(ended, IsEmpty());
  first.kill();
  EXPECT_TRUE(turn_until(io, [&] { return !ended.empty(); }));
}

TEST_F(ProcessWatchTest, TellsHowAProcessHasEndedThatItsParentHasAskedAbout) {
  Child killed(wait_for_ever);
  Child exited([]() -> std::string { _exit(7); });
  ASSERT_TRUE(watch->watch(1, killed.pid()));
  ASSERT_TRUE(watch->watch(2, exited.pid()));
  killed.kill();
  exited.report();
  ASSERT_TRUE(turn_until(io, [&] { return ended.size() == 2; }));
  if (std::ranges::find(ends, "") != ends.end()) GTEST_SKIP() << "the kernel forgets how it was";
  EXPECT_THAT(
      ends, ::testing::UnorderedElementsAre("killed by signal 9 (SIGKILL)", "ended with status 7"));
}

TEST_F(ProcessWatchTest, SaysNothingAfterItsEnd) {
  Child child(wait_for_ever);
  ASSERT_TRUE(watch->watch(5, child.pid()));
  io.poll();
  child.kill();
  watch.reset();
  turn_for(io, 5ms);
  EXPECT_THAT(ended, IsEmpty());
}

TEST(Process, IsStoppedUntilItGoesOn) {
  Child child(wait_for_ever);
  EXPECT_FALSE(is_stopped(child.pid()));
  ::kill(child.pid(), SIGSTOP);
  await(child, WSTOPPED);
  EXPECT_TRUE(is_stopped(child.pid()));
  ::kill(child.pid(), SIGCONT);
  await(child, WCONTINUED);
  EXPECT_FALSE(is_stopped(child.pid()));
  child.kill();
  EXPECT_FALSE(is_stopped(child.pid()));
}

TEST(Process, TellsHowItEnded) {
  Child killed(wait_for_ever);
  EXPECT_EQ(how_it_ended(killed.pid()), "");
  EXPECT_FALSE(has_ended(killed.pid()));
  ::kill(killed.pid(), SIGKILL);
  await(killed, WEXITED);
  EXPECT_EQ(how_it_ended(killed.pid()), "killed by signal 9 (SIGKILL)");
  EXPECT_TRUE(has_ended(killed.pid()));
  killed.kill();
  EXPECT_TRUE(has_ended(killed.pid()));
  EXPECT_EQ(how_it_ended(killed.pid()), "") << "it is forgotten";
  Child ended([]() -> std::string { _exit(3); });
  await(ended, WEXITED);
  EXPECT_EQ(how_it_ended(ended.pid()), "ended with status 3");
}

TEST(ControlClientNeighbours, AreSeenToDie) {
  Child child(wait_for_ever);
  ControlClientRank rank(0, 3, {});
  rank.run(Token::random(), {}, {{.rank = 2, .pid = child.pid()}});
  ::kill(child.pid(), SIGKILL);
  ASSERT_TRUE(rank.ears.hears("2 is dead"));
  EXPECT_EQ(rank.agent->news_of(2).detail, "its process was killed by signal 9 (SIGKILL)");
  rank.end();
}

TEST(ControlClientNeighbours, LeaveWordInTheirMemory) {
  Child child(wait_for_ever);
  ControlClientRank rank(0, 3, {});
  rank.run(Token::random(), {}, {{.rank = 2, .pid = child.pid(), .look = [] {
                                    return PeerNews{.rank = 2,
                                                    .state = PeerState::left,
                                                    .detail = "it has ended its world",
                                                    .marks = {{7, 3, 3}}};
                                  }}});
  ::kill(child.pid(), SIGKILL);
  ASSERT_TRUE(rank.ears.hears("2 is left"));
  EXPECT_THAT(rank.agent->news_of(2).marks, ElementsAre(GroupMark{7, 3, 3}));
  rank.end();
}

TEST(ControlClientNeighbours, AreSeenToLeaveWithoutACoordinator) {
  Child child(wait_for_ever);
  std::atomic<bool> leaves = false;
  ControlClientRank rank(0, 3, {});
  rank.run(Token::random(), {},
           {{.rank = 2,
             .pid = child.pid(),
             .look = [] { return PeerNews{.rank = 2, .state = PeerState::left}; },
             .has_left = [&leaves] { return leaves.load(); }}});
  rank.gate.await(3);
  EXPECT_FALSE(rank.ears.has_heard("2 is left"));
  leaves = true;
  EXPECT_TRUE(rank.ears.hears("2 is left"));
  rank.end();
}

// A rank that gives a group up and leaves has told so in this order, but its memory is read at
// once.
TEST(ControlClientNeighbours, AreGivenABeatToTellWhyTheyLeave) {
  Child child(wait_for_ever);
  std::atomic<int> beats = 0;
  std::atomic<int> beats_before_look = 0;
  ControlClientRank rank(0, 3, {});
  rank.run(Token::random(), {},
           {{.rank = 2,
             .pid = child.pid(),
             .look =
                 [&] {
                   int none = 0;
                   beats_before_look.compare_exchange_strong(none, beats);
                   return PeerNews{.rank = 2, .state = PeerState::left};
                 },
             .has_left = [&beats] { return ++beats > 0; }}});
  ASSERT_TRUE(rank.ears.hears("2 is left"));
  EXPECT_EQ(beats_before_look, 2);
  rank.end();
}

// Its end is no news where it has left before.
TEST(ControlClientNeighbours, ThatEndAfterTheyHaveLeftAreGivenABeatToo) {
  Child child(wait_for_ever);
  std::atomic<bool> leaves = false;
  std::atomic<int> looks = 0;
  ControlClientRank rank(0, 3, {});
  rank.run(Token::random(), {},
           {{.rank = 2,
             .pid = child.pid(),
             .look =
                 [&] {
                   ++looks;
                   return PeerNews{.rank = 2, .state = PeerState::left};
                 },
             .has_left = [&leaves] { return leaves.load(); }}});
  ::kill(child.pid(), SIGKILL);
  while (looks == 0) rank.gate.await(1);
  EXPECT_FALSE(rank.ears.has_heard("2 is left"));
  leaves = true;
  EXPECT_TRUE(rank.ears.hears("2 is left"));
  rank.end();
}

/// Only so many more files can be opened.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next) + more, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(ControlClientNeighbours, AreSeenToDieWithoutADescriptorForEach) {
  constexpr int size = 40;
  Child child(wait_for_ever);
  ControlClientRank rank(0, size, {});
  std::vector<control::Neighbour> neighbours;
  for (int other = 2; other < size; ++other)
    neighbours.push_back({.rank = other, .pid = child.pid(), .look = [other] {
                            return PeerNews{.rank = other, .state = PeerState::dead};
                          }});
  const Token token = Token::random();  // it reads a file
  {
    const FewDescriptors few(20);
    rank.run(token, {}, std::move(neighbours));
  }
  // What others have heard of its connection counts for nothing.
  rank.agent->receive(control::News{{.rank = size - 1, .state = PeerState::lost}});
  EXPECT_EQ(rank.agent->news_of(size - 1).state, PeerState::alive);
  ::kill(child.pid(), SIGKILL);
  for (int other = 2; other < size; ++other) {
    ASSERT_TRUE(rank.ears.hears(std::to_string(other) + " is dead"));
    EXPECT_EQ(rank.agent->news_of(other).detail, "its process was killed by signal 9 (SIGKILL)");
  }
  rank.end();
}

// Nobody else knows more of them: when the coordinator is gone they are still seen.
TEST(ControlClientNeighbours, AreNotLostWithTheCoordinator) {
  Child child(wait_for_ever);
  const Token token = Token::random();
  auto coordinator = std::make_unique<ControlClientRank>(0, 4, std::vector<int>{0});
  const std::vector<control::CoordinatorEndpoint> coordinators = {
      {0, coordinator->control_client->open_coordinator(token)}};
  ControlClientRank rank(1, 4, {0});
  coordinator->run(token, coordinators);
  rank.run(token, coordinators, {{.rank = 2, .pid = child.pid()}});
  coordinator->agent->post(control::AbortGroup{7, "why"});
  ASSERT_TRUE(rank.ears.hears("abort of 7"));
  coordinator->end();
  EXPECT_TRUE(rank.ears.hears("3 is lost"));
  EXPECT_FALSE(rank.ears.has_heard("2 is lost"));
  ::kill(child.pid(), SIGKILL);
  EXPECT_TRUE(rank.ears.hears("2 is dead"));
  rank.end();
}

}  // namespace
}  // namespace hymn::test
