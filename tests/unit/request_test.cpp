// Requests and the blocks in them: plain values, without ranks.
#include "hymn/request.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <vector>

namespace hymn::test {
namespace {

TEST(BufferView, OfContiguousThings) {
  std::vector<float> values(5);
  std::array<std::int64_t, 3> fixed{};
  double single = 0;
  const BufferView of_vector = values;
  EXPECT_EQ(of_vector.data, values.data());
  EXPECT_EQ(of_vector.count, 5u);
  EXPECT_EQ(of_vector.dtype, DataType::float32);
  EXPECT_EQ(of_vector.bytes(), 20u);
  EXPECT_EQ(BufferView(fixed).dtype, DataType::int64);
  EXPECT_EQ(BufferView(std::span(values).first(2)).count, 2u);
  EXPECT_EQ(view_of(single).count, 1u);
  EXPECT_EQ(view_of(single).dtype, DataType::float64);
  const std::vector<std::complex<double>> readable(2);
  EXPECT_EQ(ConstBufferView(readable).bytes(), 32u);
  EXPECT_EQ(ConstBufferView(of_vector).data, values.data());
}

TEST(BufferView, TakesOnlyWhatItMay) {
  static_assert(!std::is_convertible_v<const std::vector<float>&, BufferView>, "would be written");
  static_assert(!std::is_convertible_v<std::vector<float>, BufferView>, "would dangle");
  static_assert(std::is_convertible_v<std::span<float>, BufferView>);
  static_assert(!std::is_convertible_v<std::vector<long double>&, BufferView>, "has no DataType");
  static_assert(std::is_convertible_v<double&, BufferView>);
  static_assert(std::is_convertible_v<const short&, ConstBufferView>);
  static_assert(!std::is_convertible_v<const double&, BufferView>, "would be written");
  static_assert(!std::is_convertible_v<double, ConstBufferView>, "would dangle");
  static_assert(!std::is_convertible_v<double*&, BufferView>, "how many?");
  static_assert(!std::is_convertible_v<ConstBufferView, BufferView>);
}

TEST(BufferView, SlicesMoveByElements) {
  std::vector<std::int32_t> values(10);
  const BufferView part = BufferView(values).slice(3, 4);
  EXPECT_EQ(part.data, values.data() + 3);
  EXPECT_EQ(part.count, 4u);
  EXPECT_EQ(BufferView().slice(0, 0).data, nullptr);
}

TEST(BufferView, SizeOfOpaqueElementsIsTheirOwn) {
  const OpaqueType type{.handle = nullptr, .library = "mpi", .element_bytes = 12};
  std::array<std::byte, 36> memory{};
  BufferView view(memory.data(), 3, DataType::opaque);
  EXPECT_EQ(view.bytes(), 0u);
  view.opaque = &type;
  EXPECT_EQ(view.bytes(), 36u);
  EXPECT_EQ(view.slice(2, 1).data, memory.data() + 24);
}

TEST(Blocks, NoneHasNothing) {
  const OutputBlocks none;
  EXPECT_EQ(none.layout(), Layout::none);
  EXPECT_TRUE(none.views().empty());
  EXPECT_EQ(none.total_count(), 0u);
  EXPECT_EQ(none.block(1, 3).count, 0u);
  none.for_each(3, [](int, const BufferView&) { ADD_FAILURE(); });
}

TEST(Blocks, WholeConcernsAllAlike) {
  std::vector<float> values(6);
  const auto whole = OutputBlocks::whole(values);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(whole.block(i, 3).data, values.data());
  EXPECT_EQ(whole.total_count(), 6u);
}

TEST(Blocks, EqualAreCutEvenly) {
  std::vector<float> values(6);
  const auto equal = OutputBlocks::equal(values);
  EXPECT_EQ(equal.block(0, 3).data, values.data());
  EXPECT_EQ(equal.block(2, 3).data, values.data() + 4);
  EXPECT_EQ(equal.block(2, 3).count, 2u);
}

TEST(Blocks, CountedFollowOneAnother) {
  std::vector<double> values(7);
  const std::array<std::size_t, 4> counts = {2, 0, 4, 1};
  const auto counted = InputBlocks::counted(values, counts);
  const std::array<std::size_t, 4> offsets = {0, 2, 2, 6};
  int visited = 0;
  counted.for_each(4, [&](int index, const ConstBufferView& block) {
    const auto i = static_cast<std::size_t>(index);
    EXPECT_EQ(index, visited++);
    EXPECT_EQ(block.data, values.data() + offsets[i]);
    EXPECT_EQ(block.count, counts[i]);
    EXPECT_EQ(counted.block(index, 4).data, block.data);
    EXPECT_EQ(counted.block(index, 4).count, block.count);
  });
  EXPECT_EQ(visited, 4);
}

TEST(Blocks, ListsHoldTheirOwn) {
  std::vector<std::int8_t> a(3);
  std::vector<std::int8_t> b(5);
  const std::vector<BufferView> views = {a, b};
  const auto list = OutputBlocks::list(views);
  EXPECT_EQ(list.views().size(), 2u);
  EXPECT_EQ(list.dtype(), DataType::int8);
  EXPECT_EQ(list.element_bytes(), 1u);
  EXPECT_EQ(list.total_count(), 8u);
  EXPECT_EQ(list.block(1, 2).data, b.data());
}

TEST(Blocks, CanBeDescribedByOtherLists) {
  std::vector<float> values(3);
  std::vector<std::size_t> counts = {1, 2};
  auto counted = OutputBlocks::counted(values, counts);
  const std::vector<std::size_t> copy = counts;
  counted = counted.with_lists({}, copy);
  counts = {0, 0};
  EXPECT_EQ(counted.counts()[1], 2u);
  EXPECT_EQ(counted.flat().data, values.data());
  EXPECT_EQ(counted.layout(), Layout::counted);
}

TEST(Request, SaysWhatIsAsked) {
  std::vector<float> in(4);
  std::vector<float> out(4);
  const Request reduce = Request::reduce(in, out, 3, ReduceOp::max);
  EXPECT_EQ(reduce.type, OpType::reduce);
  EXPECT_EQ(reduce.op.kind(), ReduceKind::max);
  EXPECT_EQ(reduce.peer, 3);
  EXPECT_EQ(reduce.inputs.flat().data, in.data());
  EXPECT_EQ(reduce.outputs.flat().data, out.data());
  const Request broadcast = Request::broadcast(out, 1);
  EXPECT_EQ(broadcast.inputs.flat().data, broadcast.outputs.flat().data);
  const Request receive = Request::recv(out, any_source, 9);
  EXPECT_EQ(receive.peer, any_source);
  EXPECT_EQ(receive.tag, 9);
  EXPECT_EQ(receive.inputs.layout(), Layout::none);
  EXPECT_EQ(Request::barrier().outputs.layout(), Layout::none);
  EXPECT_EQ(receive.domain.kind, OrderingDomain::Kind::host);
}

TEST(Request, CollectivesAreToldFromMessages) {
  EXPECT_TRUE(is_collective(OpType::all_reduce));
  EXPECT_TRUE(is_collective(OpType::barrier));
  for (const OpType type : {OpType::send, OpType::recv, OpType::batch, OpType::probe})
    EXPECT_FALSE(is_collective(type));
}

TEST(Request, EveryTypeHasItsName) {
  EXPECT_EQ(to_string(OpType::all_reduce), "all_reduce");
  EXPECT_EQ(to_string(OpType::reduce_scatter), "reduce_scatter");
  EXPECT_EQ(to_string(OpType::recv), "recv");
}

TEST(ReduceOp, CarriesItsFactor) {
  EXPECT_EQ(ReduceOp().kind(), ReduceKind::sum);
  EXPECT_EQ(ReduceOp::premul_sum(2.5).kind(), ReduceKind::premul_sum);
  EXPECT_EQ(ReduceOp::premul_sum(2.5).factor(), 2.5);
  EXPECT_EQ(ReduceOp::avg.kind(), ReduceKind::avg);
  int handle = 0;
  EXPECT_EQ(ReduceOp::opaque(&handle).handle(), &handle);
}

}  // namespace
}  // namespace hymn::test
