// What ranks tell of one that has started a call, and is in none that moves it on; and of receives
// from any source that nobody sends to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <string>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/unit/other_waits.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// By then it is known who drives what.
constexpr auto soon = 1500ms;
constexpr auto late = 60s;

// The one that does not move it on starts it first. Who comes last may find all that it needs, and
// have done its part with the start.
void after(std::latch& started, bool is_first, const std::function<void()>& start) {
  if (!is_first) started.wait();
  start();
  if (is_first) started.count_down();
}

// Rank 0 has given it up; but what it had to give may be there already, so that the others end
// well.
void wait_or_abort(Work& work) {
  try {
    work.wait();
  } catch (const AbortedError&) {
    return;
  }
}

/// What a wait tells that names this rank alone. Not the first one, perhaps: a thread that has lost
/// its core does nothing either.
std::string blamed(Work& work, int rank) {
  std::string told;
  for (int tries = 0; tries < 20; ++tries) {
    try {
      work.wait(soon);
      ADD_FAILURE() << "somebody has moved it on";
      return told;
    } catch (const TimeoutError& error) {
      told = error.what();
      if (error.context().missing == std::vector{rank}) return told;
    }
  }
  ADD_FAILURE() << "rank " << rank << " is not named alone: " << told;
  return told;
}

TEST(Undriven, WhoHasStartedItAndDoesNotWaitIsNamed) {
  std::latch started(1);
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  run_ranks(2, [&](World& world) {
    std::vector<float> values(100'000, 1);
    const bool waits = world.rank() == 0;
    Work work;
    after(started, !waits, [&] {
      work = world.group().all_reduce_async(values, {}, {.timeout = waits ? soon : late});
    });
    if (!waits) {
      is_told.wait();
      EXPECT_THROW(work.wait(), AbortedError);
      return;
    }
    const std::string text = blamed(work, 1);
    EXPECT_THAT(text, HasSubstr("not progressed by: rank 1"));
    EXPECT_THAT(text, HasSubstr("it started all_reduce #1"));
    EXPECT_THAT(text, HasSubstr("HYMN_PROGRESS_THREAD=1"));
    EXPECT_THROW(work.wait(), TimeoutError);
    told.set_value();
  });
}

TEST(Undriven, WhoTestsItNowAndThenIsNotToBlame) {
  std::latch started(1);
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  run_ranks(3, [&](World& world) {
    std::vector<float> values(100'000, 1);
    const bool waits = world.rank() == 0;
    Work work;
    after(started, world.rank() == 2, [&] {
      work = world.group().all_reduce_async(values, {}, {.timeout = waits ? soon : late});
    });
    if (world.rank() == 1) {
      while (is_told.wait_for(50ms) != std::future_status::ready) (void)work.test();
    } else if (world.rank() == 2) {
      is_told.wait();
    } else {
      blamed(work, 2);
      EXPECT_THROW(work.wait(), TimeoutError);
      told.set_value();
      return;
    }
    wait_or_abort(work);
  });
}

// Whoever waits moves all that is in flight.
TEST(Undriven, WhoWaitsInAnotherCallIsNotToBlame) {
  std::latch started(1);
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  run_ranks(3, [&](World& world) {
    std::vector<float> values(100'000, 1);
    const bool waits = world.rank() == 0;
    Work work;
    after(started, world.rank() == 2, [&] {
      work = world.group().all_reduce_async(values, {}, {.timeout = waits ? soon : late});
    });
    if (world.rank() == 1) {
      std::int32_t word = 0;
      EXPECT_THROW(world.group().recv(view_of(word), 0, 7, {.timeout = late}), AbortedError);
      wait_or_abort(work);
    } else if (world.rank() == 2) {
      is_told.wait();
      wait_or_abort(work);
    } else {
      blamed(work, 2);
      EXPECT_THROW(work.wait(), TimeoutError);
      told.set_value();
    }
  });
}

TEST(Undriven, OtherCallsAreToldFirst) {
  std::latch started(1);
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  run_ranks(2, [&](World& world) {
    std::vector<float> values(world.rank() == 0 ? 100'000 : 50'000, 1);
    const bool waits = world.rank() == 0;
    Work work;
    after(started, !waits, [&] {
      work = world.group().all_reduce_async(values, {}, {.timeout = waits ? soon : late});
    });
    if (waits) {
      try {
        work.wait();
        ADD_FAILURE() << "the calls differ";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("50000"));
      }
      told.set_value();
      return;
    }
    is_told.wait();
    EXPECT_THROW(work.wait(), Error);
  });
}

TEST(Undriven, WhoWaitsInAWorkIsToldToBeInIt) {
  run_ranks(2, [&](World& world) {
    std::vector<float> values(100'000, 1);
    ProcessGroup other = world.new_group({0, 1});
    try {
      if (world.rank() == 0) {
        await_wait_of(world, 1);
        world.group().barrier({.timeout = soon});
      } else {
        other.all_reduce_async(values, {}, {.timeout = late}).wait();
      }
      ADD_FAILURE() << "they wait for each other";
    } catch (const Error& error) {
      if (world.rank() == 0) {
        EXPECT_THAT(error.what(), HasSubstr("it has been in all_reduce #1"));
        EXPECT_THAT(error.what(), HasSubstr("deadlock: ranks 0, 1 wait for each other"));
        other.abort("the test is over");
      }
    }
  });
}

// Who has not entered it is to blame, not who has, and computes meanwhile.
TEST(Undriven, WhoHasNotEnteredItIsNamedFirst) {
  std::latch started(1);
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  run_ranks(3, [&](World& world) {
    std::vector<float> values(100'000, 1);
    Work work;
    if (world.rank() != 2)
      after(started, world.rank() == 1, [&] {
        const auto limit = world.rank() == 0 ? Timeout(soon) : Timeout(late);
        work = world.group().all_reduce_async(values, {}, {.timeout = limit});
      });
    if (world.rank() == 0) {
      try {
        work.wait();
        ADD_FAILURE() << "rank 2 is not there";
      } catch (const TimeoutError& error) {
        EXPECT_EQ(error.context().missing, std::vector{2}) << error.what();
      }
      told.set_value();
    }
    is_told.wait();
    if (world.rank() == 1) {
      EXPECT_THROW(work.wait(), AbortedError);
    }
  });
}

TEST(Undriven, ReceivesFromAnyAreADeadlockOnlyWhereNobodyCanSend) {
  for (const bool all : {false, true}) {
    std::promise<void> told;
    std::shared_future<void> is_told = told.get_future().share();
    run_ranks(3, [&](World& world) {
      std::int32_t word = 0;
      if (world.rank() == 2 && !all) {
        is_told.wait();
        return;
      }
      const auto patience = world.rank() == 0 ? Timeout(soon) : Timeout(late);
      if (world.rank() == 0)
        for (int other = 1; other < (all ? 3 : 2); ++other) await_wait_of(world, other);
      try {
        world.group().recv(view_of(word), world.rank() == 1 ? 0 : any_source, 0,
                           {.timeout = patience});
        ADD_FAILURE() << "nobody sends";
      } catch (const Error& error) {
        if (world.rank() != 0) return;
        EXPECT_THAT(error.what(), HasSubstr("waiting for any of rank 1"));
        const std::string_view deadlock = "deadlock: ranks 0, 1, 2 wait for each other";
        EXPECT_EQ(std::string_view(error.what()).find(deadlock) != std::string_view::npos, all)
            << error.what();
        EXPECT_EQ(std::string_view(error.what()).find("deadlock") != std::string_view::npos, all);
      }
      if (world.rank() != 0) return;
      told.set_value();
      world.group().abort("the test is over");
    });
  }
}

}  // namespace
}  // namespace hymn::test
