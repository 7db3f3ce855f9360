// The one loop of everything that waits for other ranks.
#include "base/patience.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/company_watch.hpp"
#include "base/endless_call.hpp"
#include "tests/unit/fake_clock.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Patience, LooksBeforeItWaits) {
  Patience patience;
  patience.deadline = Deadline::after(Duration::zero());
  patience.meanwhile = [] { ADD_FAILURE() << "there is nothing to wait for"; };
  EXPECT_TRUE(PatientWait(patience).until([] { return true; }));
}

TEST(Patience, MovesTheRestMeanwhile) {
  int moved = 0;
  Patience patience;
  patience.meanwhile = [&] { ++moved; };
  EXPECT_TRUE(PatientWait(patience).until([&] { return moved == 100; }));
}

TEST(Patience, RestsWhereSomebodyWouldWakeIt) {
  FakeClock clock;
  const Patience patience{
      .deadline = Deadline(clock.now() + 60s), .clock = &clock, .purpose = "a test"};
  std::vector<Duration> rests;
  const auto rest = [&](Duration longest) {
    rests.push_back(longest);
    clock.advance(longest);
    return true;
  };
  EXPECT_FALSE(PatientWait(patience).until([] { return false; }, rest));
  ASSERT_FALSE(rests.empty());
  EXPECT_EQ(rests.front(), 1ms);
  EXPECT_EQ(rests.back(), 100ms) << "of a wait that has been long";
}

TEST(Patience, NapsWhereNothingWouldWakeIt) {
  int asked = 0;
  const auto rest = [&](Duration) { return ++asked == 0; };
  EXPECT_TRUE(PatientWait(Patience()).until([&] { return asked == 3; }, rest));
}

TEST(Patience, EndsWithItsDeadlineAfterALastLook) {
  FakeClock clock;
  clock.set_step(1s);
  Patience patience{.deadline = Deadline(clock.now() + 10s), .clock = &clock, .purpose = "a test"};
  PatientWait wait(patience);
  int looks = 0;
  EXPECT_FALSE(wait.until([&] { return ++looks > 1000; }));
  EXPECT_GE(wait.waited(), 10s);
  Patience last{.deadline = Deadline(clock.now()), .clock = &clock, .purpose = "a test"};
  looks = 0;
  EXPECT_TRUE(PatientWait(last).until([&] { return ++looks == 2; }));
}

TEST(Patience, ThrowsWhatItSeesMeanwhile) {
  Patience patience;
  int looks = 0;
  patience.meanwhile = [&] {
    if (++looks == 3) throw std::runtime_error("in vain");
  };
  EXPECT_THROW(PatientWait(patience).until([] { return false; }), std::runtime_error);
}

TEST(Patience, DoesNotWaitForTheHopeless) {
  Patience patience;
  patience.is_hopeless = [](int rank) { return rank == 2; };
  const std::array needed{1, 2, 3};
  PatientWait wait(patience, needed);
  int looks = 0;
  EXPECT_FALSE(wait.until([&] { return ++looks > 1000; }));
  EXPECT_THAT(wait.hopeless(), ElementsAre(2));
}

/// What has been told of a long wait.
struct Told {
  int times = 0;
  std::vector<int> missing;
  Duration waited{};
  bool quietly = false;

  std::shared_ptr<LongWait> after(Timeout limit, const Clock& clock) {
    return std::make_shared<LongWait>(
        limit, clock, [this](std::span<const int> ranks, Duration duration, bool is_quiet) {
          ++times;
          missing.assign(ranks.begin(), ranks.end());
          waited = duration;
          quietly = is_quiet;
        });
  }
};

TEST(Patience, TellsOnceThatAWaitIsLong) {
  FakeClock clock;
  clock.set_step(1s);
  Told told;
  Patience patience{
      .deadline = Deadline(clock.now() + 1000s), .clock = &clock, .purpose = "a test"};
  patience.long_wait = told.after(30s, clock);
  patience.context.rank = 0;
  const std::array needed{1, 2, 3};
  EXPECT_FALSE(PatientWait(patience, needed).until([] { return false; }));
  EXPECT_EQ(told.times, 1);
  EXPECT_THAT(told.missing, ElementsAre(1, 2, 3));
  EXPECT_GE(told.waited, 30s);
  EXPECT_FALSE(told.quietly);
}

TEST(Patience, TellsNothingOfAShortWait) {
  FakeClock clock;
  clock.set_step(1s);
  Told told;
  Patience patience{
      .deadline = Deadline(clock.now() + 1000s), .clock = &clock, .purpose = "a test"};
  patience.long_wait = told.after(2000s, clock);
  EXPECT_FALSE(PatientWait(patience).until([] { return false; }));
  patience.long_wait = told.after(Timeout::none(), clock);
  patience.deadline = Deadline(clock.now() + 1000s);
  EXPECT_FALSE(PatientWait(patience).until([] { return false; }));
  EXPECT_EQ(told.times, 0);
}

TEST(Patience, OfManyWhoWaitForEachOtherSomeTellIt) {
  std::vector<int> ranks(40);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> speakers;
  for (const int rank : ranks) {
    FakeClock clock;
    clock.set_step(1s);
    Told told;
    Patience patience{
        .deadline = Deadline(clock.now() + 1000s), .clock = &clock, .purpose = "a test"};
    patience.long_wait = told.after(30s, clock);
    patience.context.rank = rank;
    EXPECT_FALSE(PatientWait(patience, ranks).until([] { return false; }));
    if (!told.quietly) speakers.push_back(rank);
  }
  EXPECT_THAT(speakers, ElementsAre(0, 1, 2, 4, 8, 16, 32));
}

TEST(Patience, HoldsNoLockMeanwhile) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Patience patience;
  int free = 0;
  patience.meanwhile = [&] {
    const std::unique_lock lock(mutex, std::try_to_lock);
    free += lock.owns_lock() ? 1 : -1000;
    if (free == 50) done = true;
  };
  std::unique_lock lock(mutex);
  EXPECT_TRUE(PatientWait(patience).until(lock, changed, [&] { return done; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(free, 50);
}

TEST(Patience, IsWokenByAWord) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  const Patience patience;
  std::unique_lock lock(mutex);
  EXPECT_TRUE(PatientWait(patience).until(lock, changed, [&] { return done; }));
  lock.unlock();
  other.join();
}

TEST(CompanyWatch, TellsWhoIsGoneWhenTheirLastWordsHaveHadTimeToCome) {
  std::set<int> gone;
  CompanyWatch watch(
      {.ranks = {0, 1, 2, 3},
       .is_hopeless = [&](int rank) { return gone.contains(rank); },
       .tell_of = [](int rank) { return "rank " + std::to_string(rank) + " is dead"; }},
      "making it", {.rank = 0});
  const TimePoint began{};
  EXPECT_NO_THROW(watch.look(began));
  EXPECT_NO_THROW(watch.look(began + 1h));
  gone = {1, 3};
  EXPECT_NO_THROW(watch.look(began + 2h));
  gone.insert(2);  // because of them
  EXPECT_NO_THROW(watch.look(began + 2h + 99ms));
  try {
    watch.look(began + 2h + 101ms);
    ADD_FAILURE() << "nothing is thrown";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.problem(), "making it: rank 1 is dead; rank 3 is dead");
    EXPECT_THAT(error.context().missing, ElementsAre(1, 3));
  }
}

TEST(CompanyWatch, WaitsLongerForTheWordsOfWhoHasLeft) {
  std::set<int> dead;
  CompanyWatch watch({.ranks = {0, 1, 2},
                      .is_hopeless = [&](int rank) { return dead.contains(rank); },
                      .has_left = [](int rank) { return rank == 1; },
                      .tell_of = [](int rank) { return "rank " + std::to_string(rank); }},
                     "making it", {.rank = 0});
  const TimePoint began{};
  watch.look(began);
  watch.look(began + 1s);
  EXPECT_NO_THROW(watch.look(began + 10s));
  const auto told_at = [&](Duration when) -> std::string {
    try {
      watch.look(began + when);
    } catch (const PeerError& error) {
      return error.problem();
    }
    return "";
  };
  EXPECT_EQ(told_at(11s + 1ms), "making it: rank 1");
  dead = {2};
  EXPECT_EQ(told_at(11s + 500ms), "making it: rank 1");
}

TEST(CompanyWatch, LooksAtAFewOfManyAtATime) {
  std::vector<int> all(500);
  std::iota(all.begin(), all.end(), 0);
  int looks = 0;
  std::set<int> gone;
  CompanyWatch watch({.ranks = all,
                      .is_hopeless =
                          [&](int rank) {
                            ++looks;
                            return gone.contains(rank);
                          },
                      .tell_of = [](int rank) { return "rank " + std::to_string(rank); }},
                     "making it", {.rank = 0});
  TimePoint now{};
  watch.look(now);
  for (int i = 0; i < 10; ++i) watch.look(now += 2ms);
  EXPECT_EQ(looks, 160);
  gone = {100, 400};
  std::string told;
  for (int i = 0; i < 200 && told.empty(); ++i) try {
      watch.look(now += 2ms);
    } catch (const PeerError& error) {
      told = error.problem();
    }
  EXPECT_EQ(told, "making it: rank 100; rank 400");
}

TEST(CompanyWatch, GoesOnWaitingForWhoIsFoundAgain) {
  std::set<int> gone{1};
  CompanyWatch watch({.ranks = {0, 1, 2},
                      .is_hopeless = [&](int rank) { return gone.contains(rank); },
                      .tell_of =
                          [&](int rank) {
                            return gone.contains(rank) ? "rank " + std::to_string(rank) + " is lost"
                                                       : std::string();
                          }},
                     "making it", {.rank = 0});
  const TimePoint began{};
  watch.look(began);
  watch.look(began + 1s);
  gone.clear();
  EXPECT_NO_THROW(watch.look(began + 2s));
  gone = {2};
  EXPECT_NO_THROW(watch.look(began + 3s));
  EXPECT_NO_THROW(watch.look(began + 3s + 99ms)) << "its words are on their way";
  try {
    watch.look(began + 4s);
    ADD_FAILURE() << "nothing is thrown";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.problem(), "making it: rank 2 is lost");
  }
}

TEST(CompanyWatch, TellsWhoIsHeldWhenTimeIsUp) {
  const TimeoutError error("waited for rank(s) 0", 2s, {.rank = 1, .missing = {0}});
  const auto told = with_known(error, {.ranks = {0, 1, 2}, .tell_of = [](int rank) {
                                         return rank == 2 ? "2 is stopped" : "";
                                       }});
  EXPECT_THAT(told.problem(), HasSubstr("waited for rank(s) 0; 2 is stopped"));
  EXPECT_THAT(told.context().missing, ElementsAre(2));
  const TimeoutError more("waited for rank(s) 0, 1; 1 is stopped", 2s, {.missing = {0, 1}});
  const auto held_up = with_known(more, {.ranks = {0, 1, 2}, .tell_of = [](int rank) {
                                           return rank == 1 ? "1 is stopped" : "";
                                         }});
  EXPECT_EQ(held_up.problem(), more.problem());
  EXPECT_THAT(held_up.context().missing, ElementsAre(1)) << "who else may be held up by it";
  const TimeoutError three("waited for rank(s) 0, 1, 2", 2s, {.missing = {0, 1, 2}});
  const auto beside = with_known(
      three, {.ranks = {0, 1, 2}, .tell_of = [](int rank) { return rank == 1 ? "stopped" : ""; }},
      std::array{2, 3});
  EXPECT_THAT(beside.context().missing, ElementsAre(1, 2)) << "who waits for nobody is missing too";
  const auto same =
      with_known(error, {.ranks = {0, 1, 2}, .tell_of = [](int) { return std::string(); }});
  EXPECT_EQ(same.problem(), error.problem());
  EXPECT_THAT(same.context().missing, ElementsAre(0));
}

TEST(EndlessCall, MovesTheRestWhileItIsMade) {
  std::atomic<int> moved{0};
  Patience patience;
  patience.meanwhile = [&] { ++moved; };
  const auto call = [&] {
    while (moved < 100) std::this_thread::yield();
  };
  finish_or_leave(call, {}, patience);
  EXPECT_GE(moved, 100);
}

TEST(EndlessCall, IsLeftBehindWhenWaitingIsInVain) {
  // They outlive the test, as what such a call uses must.
  static std::atomic<bool> ends{false};
  static std::atomic<bool> ended{false};
  Patience patience{.purpose = "making it"};
  patience.meanwhile = [] { throw AbortedError("this rank leaves"); };
  const auto call = [] {
    while (!ends) std::this_thread::yield();
    ended = true;
  };
  EXPECT_THROW(finish_or_leave(call, {}, patience), AbortedError);
  patience.meanwhile = nullptr;
  patience.is_hopeless = [](int) { return true; };
  try {
    finish_or_leave(call, {3}, patience);
    ADD_FAILURE() << "nothing is thrown";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("making it"));
    EXPECT_THAT(error.context().missing, ElementsAre(3));
  }
  ends = true;
  while (!ended) std::this_thread::yield();
}

TEST(EndlessCall, OfTheOnlyThreadIsGivenUpByAnother) {
  Patience patience{.purpose = "making it"};
  patience.meanwhile = [] { ADD_FAILURE() << "not on another thread"; };
  patience.watch = [] { throw PeerError("rank 3 is dead"); };
  const auto caller = std::this_thread::get_id();
  std::string told;
  std::atomic<bool> ends{false};
  const auto call = [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    while (!ends) std::this_thread::yield();
  };
  const auto give_up = [&](const Error& why) {
    told = why.what();
    ends = true;  // what ends the process in earnest
  };
  finish_or_give_up(call, {3}, patience, give_up);
  EXPECT_THAT(told, HasSubstr("rank 3 is dead"));

  patience.watch = nullptr;
  patience.deadline = Deadline::after(Duration(20ms));
  ends = false;
  finish_or_give_up(call, {3}, patience, give_up);
  EXPECT_THAT(told, HasSubstr("making it: waited "));
}

TEST(EndlessCall, OfTheOnlyThreadComesBackWithWhatItThrows) {
  const Patience patience{.purpose = "making it"};
  const auto give_up = [](const Error&) { ADD_FAILURE() << "it has returned"; };
  finish_or_give_up([] {}, {3}, patience, give_up);
  EXPECT_THROW(finish_or_give_up([] { throw UsageError("no"); }, {3}, patience, give_up),
               UsageError);
}

}  // namespace
}  // namespace hymn::test
