// What one wait costs among very many works in flight, counted in steps.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "hymn/threads.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_wait.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::test {
namespace {

using detail::GroupState;
using detail::WorkPart;
using detail::WorkState;

struct Steps {
  std::size_t taken = 0;
  std::size_t open = 0;  ///< so many works may complete
  bool each_opens_the_next = false;
};

/// Completes with its second step after it may.
class LateOperation final : public Operation {
 public:
  LateOperation(Steps& steps, std::size_t index) : steps_(steps), index_(index) {}
  void start() override {}
  bool step() override {
    ++steps_.taken;
    const bool ends = index_ < steps_.open && ++looks_ > 1;
    if (ends && steps_.each_opens_the_next) ++steps_.open;
    return ends;
  }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    return nullptr;
  }

 private:
  Steps& steps_;
  std::size_t index_;
  int looks_ = 0;
};

std::shared_ptr<WorkState> make_late(GroupState& group, Steps& steps, std::size_t index,
                                     OpType type) {
  auto work = std::make_shared<WorkState>(group.shared_from_this(), Timeout::none(),
                                          detail::WorkName{type, index + 1});
  Request request;
  request.type = type;
  WorkPart& part = work->parts().emplace(request);
  part.call.request = &part.request.get();
  part.storage.emplace<LateOperation>(steps, index);
  work->start();
  group.world().engine->add(work);
  return work;
}

void with_works(std::size_t count, OpType type,
                const std::function<void(GroupState&, std::vector<std::shared_ptr<WorkState>>&,
                                         Steps&)>& look) {
  run_ranks(1, [&](World& world) {
    GroupState& group = *GroupState::of(world.group());
    Steps steps;
    std::vector<std::shared_ptr<WorkState>> works;
    for (std::size_t i = 0; i < count; ++i) works.push_back(make_late(group, steps, i, type));
    look(group, works, steps);
    EXPECT_TRUE(group.world().engine->is_idle());
  });
}

/// Of which something stays in flight when it is given up, until `*held` is false.
class HeldOperation final : public Operation {
 public:
  explicit HeldOperation(bool* held) : held_(held) {}
  void start() override {}
  bool step() override { return false; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    struct Rest final : AbandonedOperation {
      explicit Rest(bool* held) : held_(held) {}
      bool done() override { return !*held_; }
      bool* held_;
    };
    return std::make_unique<Rest>(held_);
  }

 private:
  bool* held_;
};

TEST(WorkMemory, StaysUntilNobodyUsesIt) {
  run_ranks(1, [](World& world) {
    GroupState& group = *GroupState::of(world.group());
    bool held = true;
    auto memory = std::make_shared<int>(7);
    const std::weak_ptr<int> seen = memory;
    auto work = std::make_shared<WorkState>(group.shared_from_this(), Timeout::none(),
                                            detail::WorkName{OpType::send, 1});
    WorkPart& part = work->parts().emplace(Request::send(ConstBufferView(), 0));
    part.call.request = &part.request.get();
    part.storage.emplace<HeldOperation>(&held);
    work->parts().own(std::move(memory));
    work->start();
    EXPECT_FALSE(work->parts().give_up("enough"));
    work.reset();
    EXPECT_FALSE(group.world().engine->is_drained());
    EXPECT_FALSE(seen.expired()) << "a mechanism may still read it";
    held = false;
    EXPECT_TRUE(group.world().engine->is_drained());
    EXPECT_TRUE(seen.expired());
  });
}

constexpr std::size_t many = 3000;
// Its own steps, and those of the few that have their turn between two of them.
constexpr std::size_t most_steps_a_wait = 100;

TEST(ManyWorks, AWaitForOneDoesNotStepAllOthersEachTime) {
  with_works(many, OpType::send, [](GroupState&, auto& works, Steps& steps) {
    for (std::size_t i = 0; i < many; ++i) {
      steps.open = i + 1;
      detail::WorkWait(*works[i]).wait({});
    }
    EXPECT_LT(steps.taken, many * most_steps_a_wait);
  });
}

TEST(ManyWorks, NorDoesAWaitForTheLastOfThoseThatEndOneBehindTheOther) {
  with_works(many, OpType::send, [](GroupState&, auto& works, Steps& steps) {
    steps.open = 1;
    steps.each_opens_the_next = true;
    detail::WorkWait(*works.back()).wait({});
    EXPECT_LT(steps.taken, many * most_steps_a_wait);
  });
}

TEST(ManyWorks, NorDoesATest) {
  with_works(many, OpType::send, [](GroupState&, auto& works, Steps& steps) {
    for (std::size_t i = 0; i < many; ++i) {
      steps.open = i + 1;
      while (!detail::WorkWait(*works[i]).test()) continue;
    }
    EXPECT_LT(steps.taken, many * most_steps_a_wait);
  });
}

// Whoever waits for one may be the only one to move what its peers wait for.
TEST(ManyWorks, AllOthersHaveTheirTurnWhileOneIsWaitedFor) {
  with_works(many, OpType::send, [](GroupState& group, auto& works, Steps& steps) {
    steps.open = many - 1;
    while (!works[many - 2]->is_completed()) detail::WorkWait(*works[many - 1]).test();
    steps.open = many;
    detail::WorkWait(*works[many - 1]).wait({});
    group.world().engine->step_all();
    group.world().engine->step_all();
  });
}

TEST(ManyWorks, ARoundStepsEachOnce) {
  with_works(many, OpType::send, [](GroupState& group, auto& works, Steps& steps) {
    group.world().engine->step_all();
    EXPECT_EQ(steps.taken, many);
    steps.open = many;
    for (const auto& work : works) detail::WorkWait(*work).wait({});
  });
}

TEST(ManyWorks, OneThatIsGivenUpIsForgotten) {
  with_works(3, OpType::send, [](GroupState& group, auto& works, Steps& steps) {
    ASSERT_TRUE(works[1]->abandon("enough"));
    detail::tell_all(std::span(&works[1], 1));
    EXPECT_THROW(detail::WorkWait(*works[1]).wait({}), AbortedError);
    steps.open = 3;
    group.world().engine->step_all();
    group.world().engine->step_all();
    EXPECT_TRUE(works[0]->is_completed() && works[2]->is_completed());
  });
}

// The engine may be the last to hold one.
TEST(ManyWorks, NobodyNeedHoldThem) {
  with_works(many, OpType::send, [](GroupState& group, auto& works, Steps& steps) {
    works.clear();
    steps.open = many;
    while (!group.world().engine->is_idle()) group.world().engine->step_some();
  });
}

}  // namespace
}  // namespace hymn::test
