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

}  // namespace
}  // namespace hymn::test
