// What calls that are made as one must have in common, and must not.
#include "collectives/coalesced_calls.hpp"

#include <gtest/gtest.h>

#include <array>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

class CoalescedCalls : public ::testing::Test {
 protected:
  BufferView at(std::size_t begin, std::size_t count) {
    return BufferView(values_).slice(begin, count);
  }
  /// The calls of rank 0 of two. What is wrong with them; empty: nothing.
  static std::string fault_of(const std::vector<Request>& requests, int root = -1) {
    std::vector<const Request*> calls;
    for (const Request& request : requests) calls.push_back(&request);
    try {
      require_one_whole(calls, {.rank = 0, .size = 2}, root);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  }
  static bool overlap(const std::vector<Request>& requests, int root = -1) {
    return fault_of(requests, root).find("use the same memory") != std::string::npos;
  }

  std::array<float, 64> values_{};
};

TEST_F(CoalescedCalls, MayOnlyReadTheSameMemory) {
  const auto sum = [this](std::size_t in, std::size_t out) {
    return Request::all_reduce(at(in, 4), at(out, 4));
  };
  EXPECT_FALSE(overlap({sum(0, 8), sum(0, 16)}));
  EXPECT_FALSE(overlap({sum(0, 0), sum(4, 4)}));
  EXPECT_TRUE(overlap({sum(0, 8), sum(8, 16)}));
  EXPECT_TRUE(overlap({sum(0, 8), sum(16, 9)}));
}

TEST_F(CoalescedCalls, ReadAllOfAnInputThatBeginsWhereTheOutputDoes) {
  const Request in_place = Request::reduce_scatter(InputBlocks::equal(at(0, 8)), at(0, 4));
  EXPECT_TRUE(
      overlap({in_place, Request::reduce_scatter(InputBlocks::equal(at(16, 8)), at(4, 4))}));
  EXPECT_FALSE(
      overlap({in_place, Request::reduce_scatter(InputBlocks::equal(at(16, 8)), at(8, 4))}));
}

TEST_F(CoalescedCalls, AreComparedWithAllOthersThatReachSoFar) {
  // What a call writes lies in its own input, and in that of another one, which ends earlier.
  const Request wide = Request::reduce_scatter(InputBlocks::equal(at(0, 20)), at(14, 2));
  const Request other = Request::reduce_scatter(InputBlocks::equal(at(4, 12)), at(40, 2));
  EXPECT_TRUE(
      overlap({wide, Request::reduce_scatter(InputBlocks::equal(at(32, 4)), at(60, 2)), other}));
  EXPECT_TRUE(overlap({other, wide}));
}

TEST_F(CoalescedCalls, OfARootMayReadOneBufferInSeveralBroadcasts) {
  const std::vector<Request> twice{Request::broadcast(at(0, 4), 0),
                                   Request::broadcast(at(0, 4), 0)};
  EXPECT_FALSE(overlap(twice, /*root=*/0));
  EXPECT_TRUE(overlap(twice, /*root=*/1));
}

TEST_F(CoalescedCalls, AreOfOneKindOfMemory) {
  BufferView there = at(8, 4);
  there.memory = MemoryKind::device;
  const Request here = Request::all_reduce(at(0, 4), at(4, 4));
  const Request on_gpu = Request::all_reduce(there, there);
  const BufferView none(nullptr, 0, DataType::float32);
  const Request nothing = Request::all_reduce(none, none);
  EXPECT_NE(fault_of({here, on_gpu}).find("different kinds of memory"), std::string::npos);
  EXPECT_NE(fault_of({nothing, on_gpu, here}).find("host"), std::string::npos);
  EXPECT_EQ(fault_of({nothing, on_gpu}), "");
}

}  // namespace
}  // namespace hymn::test
