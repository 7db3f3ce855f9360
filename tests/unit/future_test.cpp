// Futures alone: values set by hand, without ranks.
#include "hymn/future.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hymn/threads.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

template <class T>
struct Promise {
  std::shared_ptr<detail::FutureState<T>> state;
  Future<T> future;

  explicit Promise(detail::Drive drive = nullptr)
      : state(std::make_shared<detail::FutureState<T>>(std::move(drive))), future(state) {}
};

std::exception_ptr error(const char* text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

TEST(Future, HoldsItsValue) {
  Promise<int> promise;
  EXPECT_FALSE(promise.future.is_ready());
  promise.state->set_value(7);
  EXPECT_TRUE(promise.future.is_ready());
  EXPECT_EQ(promise.future.get(), 7);
  EXPECT_EQ(promise.future.get(), 7);  // as often as one likes
}

TEST(Future, HoldsItsError) {
  Promise<std::string> promise;
  promise.state->set_error(error("bad luck"));
  EXPECT_TRUE(promise.future.is_ready());
  EXPECT_THROW(promise.future.get(), std::runtime_error);
}

TEST(Future, OfNothing) {
  Promise<void> promise;
  bool ran = false;
  const Future<int> after = promise.future.then([&ran] { return ran = true, 3; });
  EXPECT_FALSE(ran);
  promise.state->set_value({});
  promise.future.get();
  EXPECT_EQ(after.get(), 3);
}

TEST(Promise, GivesItsValueOnce) {
  const hymn::Promise<int> promise;
  const Future<int> future = promise.get_future();
  EXPECT_FALSE(future.is_ready());
  promise.set_value(7);
  promise.set_value(8);
  promise.set_error(std::make_exception_ptr(std::runtime_error("late")));
  EXPECT_EQ(future.get(), 7);
  const hymn::Promise<void> nothing;
  nothing.set_value();
  nothing.get_future().get();
}

TEST(Promise, GivesAnError) {
  const hymn::Promise<int> promise;
  promise.set_error(std::make_exception_ptr(std::runtime_error("no value")));
  EXPECT_THROW(promise.get_future().get(), std::runtime_error);
}

TEST(Promise, ThatIsDroppedFailsItsFuture) {
  auto promise = std::make_unique<hymn::Promise<int>>();
  auto copy = std::make_unique<hymn::Promise<int>>(*promise);
  const Future<int> future = promise->get_future();
  promise.reset();
  EXPECT_FALSE(future.is_ready());
  copy.reset();
  EXPECT_THROW(future.get(), UsageError);
}

TEST(Future, WaitsForAnotherThread) {
  Promise<int> promise;
  std::thread setter([&] {
    std::this_thread::sleep_for(10ms);
    promise.state->set_value(1);
  });
  EXPECT_EQ(promise.future.get(), 1);
  setter.join();
}

TEST(Future, WaitEndsAtItsTimeout) {
  Promise<int> promise;
  try {
    promise.future.get(20ms);
    ADD_FAILURE() << "there was no value to get";
  } catch (const TimeoutError& timeout) {
    EXPECT_GE(timeout.waited(), 20ms);
  }
  promise.state->set_value(4);
  EXPECT_EQ(promise.future.get(0ms), 4);
}

TEST(Future, IsDrivenByWhoeverWaits) {
  Promise<int>* promise = nullptr;
  Timeout seen;
  Promise<int> driven([&](Timeout timeout) {
    seen = timeout;
    promise->state->set_value(9);
  });
  promise = &driven;
  // Waiting at the end of a chain drives its beginning.
  const auto text = driven.future.then([](int value) { return value + 1; }).then([](int value) {
    return std::to_string(value);
  });
  EXPECT_EQ(text.get(5s), "10");
  EXPECT_EQ(seen, Timeout(5s));
}

TEST(Future, AnEmptyOneSaysSo) {
  Promise<int> promise;
  const Future<int> taken = std::move(promise.future);
  EXPECT_THROW((void)promise.future.is_ready(), UsageError);
  EXPECT_THROW(promise.future.get(), UsageError);
  EXPECT_THROW((void)promise.future.then([](int value) { return value; }), UsageError);
}

TEST(Future, ChainsRunInTheOrderAttached) {
  Promise<int> promise;
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) (void)promise.future.then([&order, i](int) { order.push_back(i); });
  EXPECT_TRUE(order.empty());
  promise.state->set_value(0);
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST(Future, ThenOnAReadyValueRunsAtOnce) {
  Promise<int> promise;
  promise.state->set_value(5);
  EXPECT_TRUE(promise.future.then([](int value) { return value; }).is_ready());
}

TEST(Future, ErrorsSkipToTheEnd) {
  Promise<int> promise;
  int ran = 0;
  const auto end =
      promise.future.then([&](int) { ++ran; }).then([&] { ++ran; }).then([&] { return ++ran; });
  promise.state->set_error(error("first"));
  EXPECT_EQ(ran, 0);
  try {
    end.get();
    ADD_FAILURE() << "the error was lost";
  } catch (const std::runtime_error& caught) {
    EXPECT_STREQ(caught.what(), "first");
  }
}

TEST(Future, ExceptionInAChainBecomesItsError) {
  Promise<int> promise;
  const auto failed =
      promise.future.then([](int) -> int { throw std::out_of_range("in the middle"); });
  const auto end = failed.then([](int value) { return value; });
  promise.state->set_value(1);
  EXPECT_EQ(promise.future.get(), 1);  // what comes before is not touched
  EXPECT_THROW(end.get(), std::out_of_range);
}

TEST(Future, ExecutorDecidesWhereAndWhen) {
  std::vector<std::function<void()>> queue;
  const Executor later = [&queue](std::function<void()> task) { queue.push_back(std::move(task)); };
  Promise<int> promise;
  const auto doubled = promise.future.then([](int value) { return 2 * value; }, later);
  promise.state->set_value(21);
  EXPECT_FALSE(doubled.is_ready());
  ASSERT_EQ(queue.size(), 1u);
  queue[0]();
  EXPECT_EQ(doubled.get(), 42);
}

/// As a pool of threads does that has been shut down.
void refuse(const std::function<void()>&) { throw std::runtime_error("the pool is closed"); }

TEST(Future, ARefusingExecutorFailsItsChildAlone) {
  Promise<int> promise;
  std::vector<std::string> seen;
  const auto refused = promise.future.then([](int value) { return value; }, refuse);
  const auto below = refused.then([&seen](int) { seen.emplace_back("below"); });
  const auto later = promise.future.then([&seen](int) { seen.emplace_back("later"); });
  EXPECT_NO_THROW(promise.state->set_value(3));
  EXPECT_EQ(promise.future.get(), 3);
  EXPECT_THROW(refused.get(0ms), std::runtime_error);
  EXPECT_THROW(below.get(0ms), std::runtime_error);
  EXPECT_NO_THROW(later.get(0ms));
  EXPECT_EQ(seen, std::vector<std::string>{"later"});
  // Likewise where the value is there already.
  EXPECT_THROW(promise.future.then([](int) {}, refuse).get(0ms), std::runtime_error);
  EXPECT_THROW(promise.future.then([](int) {}, Executor()).get(0ms), std::bad_function_call);
}

TEST(Future, WhatThrowsBelowLeavesItsValue) {
  Promise<int> promise;
  const auto child = promise.future.then([](int value) { return value + 1; });
  const auto refused = child.then([](int value) { return value; }, refuse);
  const auto thrown = child.then([](int) { throw std::out_of_range("far below"); });
  EXPECT_NO_THROW(promise.state->set_value(3));
  EXPECT_EQ(child.get(), 4);
  EXPECT_THROW(refused.get(0ms), std::runtime_error);
  EXPECT_THROW(thrown.get(0ms), std::out_of_range);
}

TEST(Future, AnExecutorMayRunATaskAndThenThrow) {
  std::function<void()> kept;
  const Executor runs = [](const std::function<void()>& task) {
    task();
    refuse(task);
  };
  const Executor keeps = [&kept](const std::function<void()>& task) {
    kept = task;
    refuse(task);
  };
  Promise<int> promise;
  int ran = 0;
  const auto done = promise.future.then([](int value) { return value; }, runs);
  const auto failed = promise.future.then([](int value) { return value; }, keeps);
  const auto after = failed.then([&ran](int) { return ++ran; });
  promise.state->set_value(6);
  EXPECT_EQ(done.get(0ms), 6);
  EXPECT_THROW(failed.get(0ms), std::runtime_error);
  kept();
  EXPECT_THROW(failed.get(0ms), std::runtime_error);
  EXPECT_THROW(after.get(0ms), std::runtime_error);
  EXPECT_EQ(ran, 0);
}

/// Can be made and copied once or twice, but not as often as one likes.
struct Tired {
  int copies_left = 0;
  explicit Tired(int copies) : copies_left(copies) {}
  Tired(const Tired& other) : copies_left(other.copies_left - 1) {
    if (copies_left < 0) throw std::length_error("too many copies");
  }
};

TEST(Future, AValueThatCannotBeMovedIsAnError) {
  for (int copies = 0; copies < 3; ++copies) {
    // On a thread of somebody else's, which an exception would end.
    std::function<void()> kept;
    const Executor keeps = [&kept](std::function<void()> task) { kept = std::move(task); };
    Promise<int> promise;
    const auto tired = promise.future.then([copies](int) { return Tired(copies); }, keeps);
    promise.state->set_value(1);
    EXPECT_NO_THROW(kept());
    ASSERT_TRUE(tired.is_ready());
    if (copies < 2) {
      EXPECT_THROW(tired.get(), std::length_error) << copies;
    }
  }
}

// The thread that completes a work is in a call of its own: what was chained to the work must not
// end that call, nor its group.
TEST(Future, OfAWorkDoesNotDisturbTheCallThatCompletesIt) {
  for (const bool progress_thread : {false, true})
    run_ranks(2,
              [](World& world) {
                float sum = 1;
                Work work = world.group().all_reduce_async(view_of(sum));
                const auto refused = work.get_future().then([](const auto&) {}, refuse);
                const auto counted =
                    work.get_future().then([](const auto& buffers) { return buffers.size(); });
                EXPECT_NO_THROW(world.group().barrier());
                EXPECT_NO_THROW(work.wait());
                EXPECT_THROW(refused.get(10s), std::runtime_error);
                EXPECT_EQ(counted.get(10s), 1u);
                EXPECT_NO_THROW(world.group().barrier());
              },
              {.progress_thread = progress_thread});
}

TEST(Future, AttachedWhileTheValueArrives) {
  // Whichever comes first, every function runs once.
  for (int round = 0; round < 200; ++round) {
    Promise<int> promise;
    std::atomic<int> ran = 0;
    std::thread attacher([&] {
      for (int i = 0; i < 10; ++i) (void)promise.future.then([&ran](int) { ++ran; });
    });
    promise.state->set_value(int(round));
    attacher.join();
    EXPECT_EQ(ran, 10);
  }
}

TEST(Future, TellsOfValuesAndErrors) {
  int told = 0;
  const hymn::Promise<int> value;
  value.get_future().on_ready([&] { ++told; });
  EXPECT_EQ(told, 0);
  value.set_value(7);
  EXPECT_EQ(told, 1);
  value.get_future().on_ready([&] { ++told; });
  EXPECT_EQ(told, 2);
  const hymn::Promise<void> error;
  error.get_future().on_ready([&] { ++told; });
  error.set_error(std::make_exception_ptr(UsageError("no")));
  EXPECT_EQ(told, 3);
}

TEST(Timeout, KnowsWhatItIs) {
  EXPECT_FALSE(Timeout().is_set());
  EXPECT_TRUE(Timeout::none().is_set());
  EXPECT_TRUE(Timeout::none().is_none());
  EXPECT_EQ(Timeout(2s).duration(), 2s);
  EXPECT_EQ(Timeout().or_else(3s), Timeout(3s));
  EXPECT_EQ(Timeout::none().or_else(3s), Timeout::none());
}

TEST(Deadline, DoesNotWrap) {
  const TimePoint now = std::chrono::steady_clock::now();
  EXPECT_TRUE(Deadline::after(Timeout(), now).is_never());
  EXPECT_TRUE(Deadline::after(Timeout::none(), now).is_never());
  EXPECT_TRUE(Deadline::after(Duration::max(), now).is_never());
  EXPECT_TRUE(Deadline::after(Timeout(0s), now).expired(now));
  EXPECT_TRUE(Deadline::after(Timeout(-5s), now).expired(now));
  EXPECT_FALSE(Deadline::after(Timeout(1s), now).expired(now));
  EXPECT_TRUE(Deadline::after(Timeout(1s), now).expired(now + 1s));
}

}  // namespace
}  // namespace hymn::test
