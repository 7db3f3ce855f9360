// Which calls of NCCL a request becomes: the order of its groups, counts, types and operations.
#include "collectives/nccl/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "collectives/nccl/nccl_types.hpp"
#include "hymn/error.hpp"
#include "hymn/process_group.hpp"
#include "tests/unit/fake_nccl.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Calls = std::vector<std::string>;

constexpr int ranks = 3;

/// What rank 1 of 3 asks of NCCL.
class NcclLaunch : public testing::Test {
 protected:
  Calls calls_of(const Request& request, int peer = -1) {
    const std::size_t before = nccl.calls().size();
    EXPECT_TRUE(launch_nccl(place(), request, peer));
    const Calls all = nccl.calls();
    return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
  }
  NcclPlace place() { return {functions, nullptr, nullptr, {.rank = 1, .size = ranks}}; }

  FakeNccl nccl;
  nccl_api::Functions functions = nccl.functions();
  std::array<float, 6> six{};
  std::array<float, 6> other{};
  std::array<float, 2> two{};
  std::array<std::size_t, 3> counts{1, 2, 0};
  std::array<float, 3> three{};
};

TEST_F(NcclLaunch, Reductions) {
  EXPECT_THAT(calls_of(Request::all_reduce(six, other)),
              ElementsAre("all_reduce 6 of type 7 op 0"));
  EXPECT_THAT(calls_of(Request::all_reduce(six, six, ReduceOp::avg)),
              ElementsAre("all_reduce 6 of type 7 op 4 in place"));
  EXPECT_THAT(calls_of(Request::reduce(six, other, 1, ReduceOp::product), 1),
              ElementsAre("reduce 6 of type 7 op 1 root 1"));
  EXPECT_THAT(calls_of(Request::reduce(six, other, 0), 0),
              ElementsAre("reduce 6 of type 7 op 0 root 0 elsewhere"));
  EXPECT_THAT(calls_of(Request::reduce_scatter(InputBlocks::equal(six), two)),
              ElementsAre("reduce_scatter 2 of type 7 op 0"));
}

TEST_F(NcclLaunch, BlocksOfDifferentSizesAreOneOperation) {
  EXPECT_THAT(calls_of(Request::reduce_scatter(InputBlocks::counted(three, counts), two)),
              ElementsAre("start", "reduce 1 of type 7 op 0 root 0 elsewhere",
                          "reduce 2 of type 7 op 0 root 1", "end"));
  EXPECT_THAT(
      calls_of(Request::all_gather(two, OutputBlocks::counted(three, counts))),
      ElementsAre("start", "broadcast 4 of type 1 root 0", "broadcast 8 of type 1 root 1", "end"));
}

TEST_F(NcclLaunch, MovesTravelAsBytes) {
  EXPECT_THAT(calls_of(Request::broadcast(six, 2), 2),
              ElementsAre("broadcast 24 of type 1 root 2"));
  EXPECT_THAT(calls_of(Request::all_gather(two, OutputBlocks::equal(six))),
              ElementsAre("all_gather 8 of type 1"));
  EXPECT_THAT(calls_of(Request::send(six, 2), 2), ElementsAre("send 24 of type 1 to 2"));
  EXPECT_THAT(calls_of(Request::recv(six, 0), 0), ElementsAre("recv 24 of type 1 from 0"));
}

TEST_F(NcclLaunch, ABarrierIsAReductionOfNothingThatMatters) {
  EXPECT_THAT(calls_of(Request::barrier()), ElementsAre("all_reduce 1 of type 1 op 0 in place"));
}

TEST_F(NcclLaunch, RootsSendToThemselvesInTheSameGroup) {
  EXPECT_THAT(calls_of(Request::gather(two, OutputBlocks::equal(six), 1), 1),
              ElementsAre("start", "send 8 of type 1 to 1", "recv 8 of type 1 from 0",
                          "recv 8 of type 1 from 1", "recv 8 of type 1 from 2", "end"));
  EXPECT_THAT(calls_of(Request::gather(two, OutputBlocks::equal(six), 0), 0),
              ElementsAre("start", "send 8 of type 1 to 0", "end"));
  EXPECT_THAT(calls_of(Request::scatter(InputBlocks::equal(six), two, 1), 1),
              ElementsAre("start", "send 8 of type 1 to 0", "send 8 of type 1 to 1",
                          "send 8 of type 1 to 2", "recv 8 of type 1 from 1", "end"));
  EXPECT_THAT(calls_of(Request::scatter(InputBlocks::equal(six), two, 2), 2),
              ElementsAre("start", "recv 8 of type 1 from 2", "end"));
}

TEST_F(NcclLaunch, AllToAllLeavesEmptyBlocksOut) {
  const std::array<std::size_t, 3> sent{1, 2, 0};
  const std::array<std::size_t, 3> received{0, 2, 3};
  EXPECT_THAT(
      calls_of(Request::all_to_all(InputBlocks::counted(three, sent),
                                   OutputBlocks::counted(std::span(six).first(5), received))),
      ElementsAre("start", "send 4 of type 1 to 0", "send 8 of type 1 to 1",
                  "recv 8 of type 1 from 1", "recv 12 of type 1 from 2", "end"));
}

TEST_F(NcclLaunch, TheFactorIsAnElementAndItsOperationEndsWithTheCall) {
  EXPECT_THAT(calls_of(Request::all_reduce(six, other, ReduceOp::premul_sum(0.5))),
              ElementsAre("make_op 0x3f000000 of type 7 from 1", "all_reduce 6 of type 7 op 100",
                          "destroy_op 100"));
  std::array<float16, 2> halves{};
  EXPECT_THAT(calls_of(Request::all_reduce(halves, halves, ReduceOp::premul_sum(0.5)))[0],
              "make_op 0x3800 of type 6 from 1");
  std::array<std::int64_t, 2> longs{};
  EXPECT_THAT(calls_of(Request::all_reduce(longs, longs, ReduceOp::premul_sum(-1)))[0],
              "make_op 0xffffffffffffffff of type 4 from 1");
  nccl.fail("all_reduce", nccl_api::internal_error);
  EXPECT_THROW(launch_nccl(place(), Request::all_reduce(six, other, ReduceOp::premul_sum(0.5)), -1),
               BackendError);
  EXPECT_EQ(nccl.calls().back(), "destroy_op 100");
}

TEST_F(NcclLaunch, AGroupEndsEvenWhenACallFails) {
  nccl.fail("send", nccl_api::invalid_argument);
  EXPECT_THROW(launch_nccl(place(), Request::scatter(InputBlocks::equal(six), two, 1), 1),
               BackendError);
  EXPECT_THAT(nccl.calls(), ElementsAre("start", "send 8 of type 1 to 0", "end"));
}

TEST_F(NcclLaunch, TellsWhenNcclIsStillAtIt) {
  nccl.fail("all_reduce", nccl_api::in_progress);
  EXPECT_FALSE(launch_nccl(place(), Request::all_reduce(six, other), -1));
  nccl.fail("end", nccl_api::in_progress);
  EXPECT_FALSE(launch_nccl(place(), Request::gather(two, OutputBlocks::equal(six), 0), 0));
}

TEST_F(NcclLaunch, NothingIsEnqueuedForBuffersThatOverlap) {
  try {
    require_apart_for_nccl(Request::all_to_all(InputBlocks::equal(six), OutputBlocks::equal(six)));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("in-place"));
    EXPECT_THAT(error.what(), HasSubstr("remedy"));
  }
  EXPECT_THAT(nccl.calls(), IsEmpty());
}

// NCCL's documentation: in place, where recvbuff is sendbuff + rank * recvcount.
TEST_F(NcclLaunch, AReduceScatterMayBeInPlace) {
  const Request equal =
      Request::reduce_scatter(InputBlocks::equal(six), std::span(six).subspan(2, 2));
  EXPECT_NO_THROW(require_apart_for_nccl(equal));
  EXPECT_THAT(calls_of(equal), ElementsAre("reduce_scatter 2 of type 7 op 0"));
  // Of different sizes each block is a reduce, of which the root is in place.
  const Request uneven =
      Request::reduce_scatter(InputBlocks::counted(three, counts), std::span(three).subspan(1, 2));
  EXPECT_NO_THROW(require_apart_for_nccl(uneven));
  EXPECT_THAT(calls_of(uneven), ElementsAre("start", "reduce 1 of type 7 op 0 root 0 elsewhere",
                                            "reduce 2 of type 7 op 0 root 1 in place", "end"));
}

TEST(NcclRules, WhatNcclHasNot) {
  std::array<float, 4> values{};
  const auto reason = [](const Request& request) { return nccl_can_run(request).reason; };
  EXPECT_TRUE(nccl_can_run(Request::all_reduce(values, values)).ok);
  EXPECT_TRUE(nccl_can_run(Request::send(values, 1)).ok);
  EXPECT_EQ(reason(Request::send(values, 1, 5)), "NCCL has no tags");
  EXPECT_EQ(reason(Request::recv(values, any_source)), "NCCL cannot receive from any source");
  EXPECT_TRUE(nccl_can_run(Request::barrier()).ok);
  EXPECT_THAT(reason(Request::all_reduce(values, values, ReduceOp::max)), HasSubstr("NaN"));
  std::array<std::int32_t, 4> numbers{};
  EXPECT_TRUE(nccl_can_run(Request::all_reduce(numbers, numbers, ReduceOp::max)).ok);
  EXPECT_EQ(reason(Request::all_reduce(numbers, numbers, ReduceOp::bxor)), "NCCL has no bxor");
  EXPECT_THAT(reason(Request::all_reduce(numbers, numbers, ReduceOp::avg)), HasSubstr("wrap"));
  std::array<bool, 4> flags{};
  EXPECT_EQ(reason(Request::all_reduce(flags, flags)), "NCCL cannot reduce boolean");
  EXPECT_TRUE(nccl_can_run(Request::broadcast(flags, 0)).ok);
}

TEST(NcclRules, WhatIsNotRefusedHasANameOfNccl) {
  for (std::size_t type = 0; type < data_type_count; ++type)
    for (std::size_t kind = 0; kind < reduce_kind_count; ++kind) {
      const auto dtype = static_cast<DataType>(type);
      const auto op = static_cast<ReduceKind>(kind);
      if (!nccl_refusal(dtype, op).empty()) continue;
      EXPECT_NO_THROW(nccl_type(dtype)) << to_string(dtype);
      if (op != ReduceKind::premul_sum) {
        EXPECT_NO_THROW(nccl_op(op)) << to_string(op);
      }
    }
}

}  // namespace
}  // namespace hymn::test
