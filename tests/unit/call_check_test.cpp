// What calls have in common, how they are told, and when they do not fit together.
#include "runtime/group/call_check.hpp"

#include <gtest/gtest.h>

#include <array>

#include "collectives/coalesced_calls.hpp"

namespace hymn::test {
namespace {

struct Buffers {
  std::array<float, 64> in{};
  std::array<float, 64> out{};
  ConstBufferView give(std::size_t count) { return BufferView(in).slice(0, count); }
  BufferView take(std::size_t count) { return BufferView(out).slice(0, count); }
};

using Counts = std::vector<std::size_t>;

std::string told(const Request& request) { return describe(facts_of(request)); }

TEST(CallFacts, AreToldInWords) {
  Buffers b;
  const Counts counts = {1, 2};
  EXPECT_EQ(told(Request::barrier()), "barrier");
  EXPECT_EQ(told(Request::all_reduce(b.give(5), b.take(5), ReduceOp::max)),
            "all_reduce of 5 float32 with max");
  EXPECT_EQ(told(Request::broadcast(b.take(0), 3)), "broadcast of 0 float32 from root 3");
  EXPECT_EQ(told(Request::reduce(b.give(1), {}, 0)), "reduce of 1 float32 with sum to root 0");
  EXPECT_EQ(told(Request::gather(b.give(2), OutputBlocks::equal(b.take(4)), 1)),
            "gather of 2 float32 to root 1");
  EXPECT_EQ(told(Request::scatter(InputBlocks(), b.take(2), 1)),
            "scatter of float32 from root 1 in a list of buffers");
  EXPECT_EQ(told(Request::all_gather(b.give(1), OutputBlocks::counted(b.take(3), counts))),
            "all_gather of 3 float32 in blocks of given counts");
}

TEST(CallFacts, NameOperationsAsProfilersDo) {
  EXPECT_EQ(profiling_name(OpType::all_to_all, 0, -1), "hymn:all_to_all");
  EXPECT_EQ(profiling_name(OpType::send, 4, 6), "hymn:send 4->6");
  EXPECT_EQ(profiling_name(OpType::recv, 4, any_source), "hymn:recv 4<-any");
  EXPECT_EQ(profiling_name(OpType::probe, 4, 6), "hymn:probe 4<-6");
  CallRecord call;
  call.coalesced = true;
  call.type = OpType::all_gather;
  EXPECT_EQ(profiling_name(call, 0), "hymn:all_gather_into_tensor_coalesced");
  call.type = OpType::reduce_scatter;
  EXPECT_EQ(profiling_name(call, 0), "hymn:reduce_scatter_tensor_coalesced");
}

TEST(CallFacts, PayloadIsWhatARankGivesOrGets) {
  Buffers b;
  EXPECT_EQ(payload_of(Request::all_gather(b.give(3), OutputBlocks::equal(b.take(12)))), 12u);
  EXPECT_EQ(payload_of(Request::recv(b.take(5), 0)), 20u);
  EXPECT_EQ(payload_of(Request::scatter(InputBlocks::equal(b.give(8)), b.take(2), 0)), 8u);
  EXPECT_EQ(payload_of(Request::barrier()), 0u);
}

/// The calls of ranks 10, 11, … of a group.
std::optional<std::string> misfit(const std::vector<Request>& requests, int root = -1) {
  std::vector<CheckedCall> calls;
  std::vector<int> ranks;
  for (const Request& request : requests) {
    const GroupShape shape{static_cast<int>(calls.size()), static_cast<int>(requests.size())};
    ranks.push_back(10 + shape.rank);
    const CheckedCall call = CheckedCall::of({.request = &request, .peer = root}, shape);
    // As it arrives elsewhere.
    Packer packer;
    call.pack(packer);
    Unpacker unpacker(packer.packed());
    calls.push_back(CheckedCall::unpack(unpacker));
    EXPECT_EQ(calls.back(), call);
    EXPECT_TRUE(unpacker.empty());
  }
  return find_misfit(calls, ranks);
}

TEST(CallCheck, ShapesThatAreGivenMustBeAlike) {
  Buffers b;
  const auto shaped = [&b](std::span<const std::int64_t> shape) {
    Request request = Request::all_reduce(b.give(12), b.take(12));
    ConstBufferView in = b.give(12);
    in.shape = shape;
    request.inputs = InputBlocks::whole(in);
    return request;
  };
  static constexpr std::array<std::int64_t, 2> wide{3, 4};
  static constexpr std::array<std::int64_t, 2> high{4, 3};
  EXPECT_EQ(misfit({shaped(wide), shaped(wide)}), std::nullopt);
  EXPECT_EQ(misfit({shaped({}), shaped(wide), shaped(wide)}), std::nullopt);
  EXPECT_EQ(misfit({shaped({}), shaped(wide), shaped(high)}),
            "the shape is [3, 4] on rank 11, but [4, 3] on rank 12");
  // What rank 0 scatters has the shape of all parts, and does not count.
  const auto scattered = [&b](std::span<const std::int64_t> shape) {
    BufferView out = b.take(12);
    out.shape = shape;
    return Request::scatter(InputBlocks::equal(b.give(24)), out, 0);
  };
  EXPECT_EQ(misfit({scattered(wide), scattered(high)}, 0),
            "the shape is [3, 4] on rank 10, but [4, 3] on rank 11");
  // Parts of different sizes have different shapes.
  const Counts counts = {2, 10};
  const auto gathered = [&](std::size_t own, std::span<const std::int64_t> shape) {
    ConstBufferView in = b.give(own);
    in.shape = shape;
    return Request::all_gather(in, OutputBlocks::counted(b.take(12), counts));
  };
  static constexpr std::array<std::int64_t, 1> two{2};
  static constexpr std::array<std::int64_t, 2> ten{5, 2};
  EXPECT_EQ(misfit({gathered(2, two), gathered(10, ten)}), std::nullopt);
}

// A dense layout is taken as it lies in memory: another order of its dimensions is another array.
TEST(CallCheck, StridesOfAShapeMustBeAlike) {
  Buffers b;
  static constexpr std::array<std::int64_t, 3> shape{3, 1, 4};
  const auto laid = [&b](std::span<const std::int64_t> strides) {
    Request request = Request::all_reduce(b.give(12), b.take(12));
    ConstBufferView in = b.give(12);
    in.shape = shape;
    in.strides = strides;
    request.inputs = InputBlocks::whole(in);
    return request;
  };
  static constexpr std::array<std::int64_t, 3> rows{4, 4, 1};
  static constexpr std::array<std::int64_t, 3> same{4, 77, 1};
  static constexpr std::array<std::int64_t, 3> columns{1, 3, 3};
  EXPECT_EQ(misfit({laid({}), laid(rows), laid(same)}), std::nullopt);
  EXPECT_EQ(misfit({laid(columns), laid(columns)}), std::nullopt);
  EXPECT_EQ(misfit({laid({}), laid(columns)}),
            "the layout is [3, 1, 4] with strides [4, 4, 1] on rank 10, but "
            "[3, 1, 4] with strides [1, 4, 3] on rank 11");
  const Request flat = Request::all_reduce(b.give(12), b.take(12));
  EXPECT_EQ(misfit({flat, laid(columns)}),
            "the layout is flat on rank 10, but [3, 1, 4] with strides [1, 4, 3] on rank 11");
  EXPECT_EQ(told(laid(columns)),
            "all_reduce of 12 float32 with sum whose dimensions lie in memory as 1, 0");
}

TEST(CallCheck, FactsThatDifferAreEnough) {
  Buffers b;
  const Request usual = Request::all_reduce(b.give(5), b.take(5));
  EXPECT_EQ(misfit({usual, usual, usual}), std::nullopt);
  EXPECT_EQ(misfit({usual, usual, Request::all_reduce(b.give(6), b.take(6))}), "");
  EXPECT_EQ(misfit({usual, Request::all_reduce(b.give(5), b.take(5), ReduceOp::min)}), "");
  // Each rank may have a factor of its own.
  EXPECT_EQ(misfit({Request::all_reduce(b.give(5), b.take(5), ReduceOp::premul_sum(2)),
                    Request::all_reduce(b.give(5), b.take(5), ReduceOp::premul_sum(3))}),
            std::nullopt);
}

TEST(CallCheck, CountsOfAllToAll) {
  Buffers b;
  const Counts give0 = {1, 2}, take0 = {1, 3}, give1 = {3, 4}, take1 = {2, 4};
  const auto call = [&](const Counts& give, const Counts& take) {
    return Request::all_to_all(InputBlocks::counted(b.give(give[0] + give[1]), give),
                               OutputBlocks::counted(b.take(take[0] + take[1]), take));
  };
  EXPECT_EQ(misfit({call(give0, take0), call(give1, take1)}), std::nullopt);
  const Counts wrong = {5, 4};
  EXPECT_EQ(misfit({call(give0, take0), call(give1, wrong)}),
            "rank 10 sends rank 11 2 elements, which expects 5");
  EXPECT_EQ(misfit({call(give0, take0), call(wrong, take1)}),
            "rank 11 sends rank 10 5 elements, which expects 3");
}

TEST(CallCheck, CountsOfGatherings) {
  Buffers b;
  const Counts counts = {1, 3}, wrong = {2, 2};
  const auto all_gather = [&](std::size_t own, const Counts& given) {
    return Request::all_gather(b.give(own), OutputBlocks::counted(b.take(4), given));
  };
  EXPECT_EQ(misfit({all_gather(1, counts), all_gather(3, counts)}), std::nullopt);
  EXPECT_EQ(misfit({all_gather(1, counts), all_gather(2, wrong)}),
            "rank 10 sends rank 11 1 elements, which expects 2");
  const auto gather = [&](std::size_t own, const Counts& given) {
    return Request::gather(b.give(own), OutputBlocks::counted(b.take(4), given), 10);
  };
  EXPECT_EQ(misfit({gather(1, counts), gather(3, counts)}, 0), std::nullopt);
  EXPECT_NE(misfit({gather(1, counts), gather(2, wrong)}, 0), std::nullopt);
}

TEST(CallCheck, ListsOfTheRootAlone) {
  Buffers b;
  const std::vector<ConstBufferView> list = {b.give(1), b.give(3)};
  const auto scatter = [&](InputBlocks in, std::size_t own) {
    return Request::scatter(in, b.take(own), 10);
  };
  const InputBlocks given = InputBlocks::list(list);
  EXPECT_EQ(misfit({scatter(given, 1), scatter({}, 3)}, 0), std::nullopt);
  // What is not read is not compared.
  EXPECT_EQ(misfit({scatter(given, 1), scatter(InputBlocks::list({}), 3)}, 0), std::nullopt);
  EXPECT_EQ(misfit({scatter(given, 1), scatter({}, 2)}, 0),
            "rank 10 sends rank 11 3 elements, which expects 2");
}

/// The same of calls that each rank coalesces.
std::optional<std::string> misfit_of_wholes(const std::vector<std::vector<Request>>& ranks_calls,
                                            int root = -1) {
  std::vector<CheckedCall> calls;
  std::vector<int> ranks;
  for (const std::vector<Request>& requests : ranks_calls) {
    std::vector<const Request*> given;
    for (const Request& request : requests) given.push_back(&request);
    const OwnedRequest whole = whole_of(given);
    const Call call{.request = &whole.get(),
                    .peer = root,
                    .coalesced = given.size(),
                    .in_given_blocks = have_given_blocks(given)};
    ranks.push_back(10 + static_cast<int>(calls.size()));
    calls.push_back(CheckedCall::of(
        call, {static_cast<int>(calls.size()), static_cast<int>(ranks_calls.size())}));
  }
  return find_misfit(calls, ranks);
}

TEST(CallCheck, CountsOfCoalescedCallsWithARoot) {
  Buffers b;
  const auto gathers = [&](std::size_t first, std::size_t second) {
    return std::vector{
        Request::gather(b.give(first), OutputBlocks::equal(b.take(2 * first)), 10),
        Request::gather(b.give(second), OutputBlocks::equal(b.take(2 * second)), 10)};
  };
  EXPECT_EQ(misfit_of_wholes({gathers(4, 8), gathers(4, 8)}, 0), std::nullopt);
  EXPECT_EQ(misfit_of_wholes({gathers(4, 8), gathers(8, 4)}, 0),
            "buffer 1 of those coalesced has 4 elements on rank 10 and 8 on rank 11");
  const auto scatters = [&](std::size_t first, std::size_t second) {
    return std::vector{
        Request::scatter(InputBlocks::equal(b.give(2 * first)), b.take(first), 10),
        Request::scatter(InputBlocks::equal(b.give(2 * second)), b.take(second), 10)};
  };
  EXPECT_EQ(misfit_of_wholes({scatters(4, 8), scatters(4, 8)}, 0), std::nullopt);
  EXPECT_NE(misfit_of_wholes({scatters(4, 8), scatters(8, 4)}, 0), std::nullopt);
  const auto exchanges = [&](std::size_t first, std::size_t second) {
    return std::vector{
        Request::all_to_all(InputBlocks::equal(b.give(first)), OutputBlocks::equal(b.take(first))),
        Request::all_to_all(InputBlocks::equal(b.give(second)),
                            OutputBlocks::equal(b.take(second)))};
  };
  EXPECT_EQ(misfit_of_wholes({exchanges(4, 8), exchanges(4, 8)}), std::nullopt);
  EXPECT_NE(misfit_of_wholes({exchanges(4, 8), exchanges(8, 4)}), std::nullopt);
}

TEST(CallCheck, CoalescedBlocksOfGivenSizesMayDiffer) {
  Buffers b;
  const Counts counts = {1, 3};
  const auto counted = [&](std::size_t own) {
    return std::vector{Request::gather(b.give(own), OutputBlocks::counted(b.take(4), counts), 10)};
  };
  EXPECT_EQ(misfit_of_wholes({counted(1), counted(3)}, 0), std::nullopt);
  // A list that the root alone has.
  const std::array<ConstBufferView, 2> list{b.give(1), b.give(3)};
  EXPECT_EQ(misfit_of_wholes({{Request::scatter(InputBlocks::list(list), b.take(1), 10)},
                              {Request::scatter({}, b.take(3), 10)}},
                             0),
            std::nullopt);
}

TEST(CallCheck, CoalescedBarriersAreCounted) {
  const Request one = Request::barrier();
  EXPECT_EQ(misfit_of_wholes({{one, one}, {one, one}}), std::nullopt);
  EXPECT_EQ(misfit_of_wholes({{one, one}, {one, one, one}}), "");
  const Call two{.request = &one, .coalesced = 2};
  EXPECT_EQ(describe(facts_of(two)), "barrier, 2 coalesced");
  EXPECT_NE(signature_of(facts_of(two)), signature_of(facts_of(one)));
}

TEST(CallFacts, FitWhereNotAllKnowHowTheCallIsCut) {
  const CallFacts known{.count = 8, .coalesced = 2, .cut = 5};
  CallFacts other = known;
  other.cut = 0;
  EXPECT_TRUE(fit(known, other));
  other.cut = 4;
  EXPECT_FALSE(fit(known, other));
  other.count = 9;
  other.cut = 0;
  EXPECT_FALSE(fit(known, other));
}

TEST(CallCheck, TellsSameCallsTogether) {
  const std::vector<std::string> words = {"A", "B", "A"};
  EXPECT_EQ(tell_calls(words, std::vector{0, 1, 2}), "ranks 0, 2 call A; rank 1 calls B");
  std::vector<std::string> many;
  std::vector<int> ranks;
  for (int rank = 0; rank < 10; ++rank) {
    many.push_back("call " + std::to_string(rank));
    ranks.push_back(rank);
  }
  const std::string text = tell_calls(many, ranks);
  EXPECT_NE(text.find("rank 7 calls call 7; and 2 more calls differ"), std::string::npos) << text;
  EXPECT_EQ(text.find("call 8"), std::string::npos) << text;
}

}  // namespace
}  // namespace hymn::test
