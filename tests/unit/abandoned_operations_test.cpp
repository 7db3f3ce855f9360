// What operations that were given up leave behind.
#include <gtest/gtest.h>

#include "runtime/group/progress_engine.hpp"

namespace hymn::test {
namespace {

class DoneOperation final : public AbandonedOperation {
 public:
  explicit DoneOperation(int& alive) : alive_(alive) { ++alive_; }
  ~DoneOperation() override { --alive_; }
  bool done() override { return true; }

 private:
  int& alive_;
};

TEST(AbandonedOperations, AreHeldNoLongerThanToTheNext) {
  int alive = 0;
  {
    ProgressEngine engine(
        std::make_shared<WorksInFlight>(), [] { return true; }, false, false, CpuSet());
    for (int i = 0; i < 100; ++i) {
      engine.keep(std::make_unique<DoneOperation>(alive));
      EXPECT_EQ(alive, 1);
    }
    EXPECT_TRUE(engine.is_drained());
    EXPECT_EQ(alive, 0);
  }
}

/// Gone after two moves.
class TwoMoves final : public UnsentMail::Sender {
 public:
  bool move_unsent() noexcept override { return --left_ == 0; }

 private:
  int left_ = 2;
};

// Also that of what was given up, for which nothing is in flight any more: the peers wait for what
// comes behind it.
TEST(UnsentMail, IsMovedByWhoeverWaits) {
  ProgressEngine engine(
      std::make_shared<WorksInFlight>(), [] { return true; }, false, false, CpuSet());
  TwoMoves waited_by_step;
  TwoMoves waited_by_patience;
  EXPECT_TRUE(engine.is_idle());
  engine.mail()->add(waited_by_step);
  EXPECT_FALSE(engine.is_idle());
  engine.step_some();
  EXPECT_FALSE(engine.is_idle());
  engine.step_some();
  EXPECT_TRUE(engine.is_idle());
  engine.mail()->add(waited_by_patience);
  engine.step_all();
  engine.step_all();
  EXPECT_TRUE(engine.is_idle());
}

}  // namespace
}  // namespace hymn::test
