// What is told of messages that do not come within their limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <vector>

#include "hymn/hymn.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr auto receive_limit = 300ms;

TEST(MessageVerdict, AReceiveIsGivenUpAndNotItsGroup) {
  run_ranks(2, [](World& world) {
    ProcessGroup& group = world.group();
    if (world.rank() == 0) {
      std::vector<int> values(3);
      try {
        group.recv(values, 1, 5, {.timeout = receive_limit});
        ADD_FAILURE() << "nobody has sent it";
      } catch (const TimeoutError& error) {
        EXPECT_THAT(error.what(), HasSubstr("; the call is given up"));
        EXPECT_THAT(error.what(), Not(HasSubstr("the group is given up")));
      }
      EXPECT_FALSE(group.is_aborted());
    }
    group.barrier();
  });
}

TEST(MessageVerdict, OfABatchOnlyWhatIsStillInFlightCounts) {
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  std::promise<void> received;
  run_ranks(4, [&](World& world) {
    ProcessGroup& group = world.group();
    std::vector<int> in(3, 7);
    std::vector<int> out(3);
    if (world.rank() == 1) {
      group.recv(out, 0, 1);
      received.set_value();
    }
    if (world.rank() != 0) {
      is_told.wait();
      if (world.rank() == 2) group.send(in, 0, 2);
      return;
    }
    const std::array batch = {P2POp::send(in, 1, 1), P2POp::recv(out, 2, 2)};
    Work work = group.batch_isend_irecv(batch);
    const std::future<void> is_received = received.get_future();
    while (is_received.wait_for(1ms) != std::future_status::ready) (void)work.test();
    try {
      work.wait(1500ms);
      ADD_FAILURE() << "rank 2 has not sent it";
    } catch (const TimeoutError& error) {
      EXPECT_EQ(error.context().missing, std::vector{2}) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("waiting for rank 2"));
      EXPECT_THAT(error.what(),
                  HasSubstr("this rank calls recv of 3 int32 from rank 2 with tag 2"));
    }
    told.set_value();
    work.wait();
  });
}

}  // namespace
}  // namespace hymn::test
