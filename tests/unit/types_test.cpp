// Names and sizes of the public vocabulary.
#include "hymn/types.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <set>
#include <string>

#include "hymn/request.hpp"

namespace hymn {
namespace {

// A table has all enumerators, up to the last one.
static_assert(all_op_types.back() == OpType::probe);
static_assert(all_reduce_kinds.back() == ReduceKind::opaque);
static_assert(all_data_types.back() == DataType::opaque);

TEST(Types, SizesAreThoseOfTheElements) {
  EXPECT_EQ(size_of(data_type_of<bool>), sizeof(bool));
  EXPECT_EQ(size_of(data_type_of<std::int8_t>), 1u);
  EXPECT_EQ(size_of(data_type_of<std::uint8_t>), 1u);
  EXPECT_EQ(size_of(data_type_of<std::byte>), 1u);
  EXPECT_EQ(size_of(data_type_of<std::int16_t>), 2u);
  EXPECT_EQ(size_of(data_type_of<std::uint16_t>), 2u);
  EXPECT_EQ(size_of(data_type_of<std::int32_t>), 4u);
  EXPECT_EQ(size_of(data_type_of<std::uint32_t>), 4u);
  EXPECT_EQ(size_of(data_type_of<std::int64_t>), 8u);
  EXPECT_EQ(size_of(data_type_of<std::uint64_t>), 8u);
  EXPECT_EQ(size_of(data_type_of<float16>), sizeof(float16));
  EXPECT_EQ(size_of(data_type_of<bfloat16>), sizeof(bfloat16));
  EXPECT_EQ(size_of(data_type_of<float>), sizeof(float));
  EXPECT_EQ(size_of(data_type_of<double>), sizeof(double));
  EXPECT_EQ(size_of(data_type_of<std::complex<float>>), sizeof(std::complex<float>));
  EXPECT_EQ(size_of(data_type_of<std::complex<double>>), sizeof(std::complex<double>));
  EXPECT_EQ(size_of(data_type_of<float8_e4m3fn>), sizeof(float8_e4m3fn));
  EXPECT_EQ(size_of(data_type_of<float8_e5m2>), sizeof(float8_e5m2));
  EXPECT_EQ(size_of(DataType::value), 0u);
  EXPECT_EQ(size_of(DataType::opaque), 0u);
}

template <class Enum>
void expect_distinct_names(std::size_t count) {
  std::set<std::string_view> names;
  for (std::size_t value = 0; value < count; ++value) names.insert(to_string(Enum(value)));
  EXPECT_EQ(names.size(), count);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(to_string(Enum(count)), "unknown");
}

TEST(Types, EveryValueHasItsOwnName) {
  expect_distinct_names<DataType>(data_type_count);
  expect_distinct_names<ReduceKind>(reduce_kind_count);
  expect_distinct_names<MemoryKind>(4);
  expect_distinct_names<OpType>(op_type_count);
  expect_distinct_names<Reproducibility>(reproducibility_count);
}

TEST(Types, NamesAreThoseOfTheEnumerators) {
  EXPECT_EQ(to_string(DataType::boolean), "boolean");
  EXPECT_EQ(to_string(DataType::bfloat16), "bfloat16");
  EXPECT_EQ(to_string(DataType::float8_e5m2), "float8_e5m2");
  EXPECT_EQ(to_string(DataType::opaque), "opaque");
  EXPECT_EQ(to_string(ReduceKind::bxor), "bxor");
  EXPECT_EQ(to_string(ReduceKind::premul_sum), "premul_sum");
  EXPECT_EQ(to_string(MemoryKind::managed), "managed");
  EXPECT_EQ(to_string(OpType::all_to_all), "all_to_all");
  EXPECT_EQ(to_string(OpType::batch), "batch");
  EXPECT_EQ(to_string(Reproducibility::ranks), "ranks");
  EXPECT_EQ(to_string(Reproducibility::size), "size");
}

/// What a request with blocks, where it has any, says of its sides.
Request request_of(OpType type) {
  static std::array<float, 4> values{};
  const BufferView out(values);
  const ConstBufferView in = out;
  switch (type) {
    case OpType::all_reduce:
      return Request::all_reduce(in, out);
    case OpType::broadcast:
      return Request::broadcast(out, 0);
    case OpType::reduce:
      return Request::reduce(in, out, 0);
    case OpType::gather:
      return Request::gather(in, OutputBlocks::equal(out), 0);
    case OpType::scatter:
      return Request::scatter(InputBlocks::equal(in), out, 0);
    case OpType::all_gather:
      return Request::all_gather(in, OutputBlocks::equal(out));
    case OpType::reduce_scatter:
      return Request::reduce_scatter(InputBlocks::equal(in), out);
    case OpType::scan:
      return Request::scan(in, out);
    case OpType::exscan:
      return Request::exscan(in, out);
    case OpType::all_to_all:
      return Request::all_to_all(InputBlocks::equal(in), OutputBlocks::equal(out));
    case OpType::barrier:
      return Request::barrier();
    case OpType::send:
      return Request::send(in, 0);
    case OpType::recv:
      return Request::recv(out, 0);
    case OpType::probe:
      return Request::probe(0);
    case OpType::batch:
      break;
  }
  return {};
}

SideForm form_of(Layout layout) {
  if (layout == Layout::none) return SideForm::none;
  return layout == Layout::whole ? SideForm::whole : SideForm::blocks;
}

TEST(OpTraits, AreThoseOfTheRequests) {
  for (const OpType type : all_op_types) {
    SCOPED_TRACE(to_string(type));
    const Request request = request_of(type);
    const OpTraits& traits = traits_of(type);
    EXPECT_EQ(traits.input, form_of(request.inputs.layout()));
    EXPECT_EQ(traits.output, form_of(request.outputs.layout()));
    EXPECT_EQ(traits.root != RootRole::none || has_tag(type), request.peer == 0);
    EXPECT_EQ(traits.one_buffer, type == OpType::broadcast);
    EXPECT_TRUE(traits.collective || !(traits.reduces || has_root(type)));
  }
}

TEST(OpTraits, SayWhatTheRootAloneDoes) {
  EXPECT_EQ(traits_of(OpType::broadcast).root, RootRole::gives);
  EXPECT_EQ(traits_of(OpType::scatter).root, RootRole::gives);
  EXPECT_EQ(traits_of(OpType::gather).root, RootRole::takes);
  EXPECT_EQ(traits_of(OpType::reduce).root, RootRole::takes);
  EXPECT_TRUE(uses_inputs(OpType::broadcast, false));  // its one buffer
  EXPECT_FALSE(uses_inputs(OpType::scatter, false));
  EXPECT_FALSE(uses_outputs(OpType::gather, false));
  EXPECT_FALSE(uses_outputs(OpType::reduce, false));
  EXPECT_TRUE(uses_inputs(OpType::reduce, false));
  EXPECT_TRUE(uses_outputs(OpType::all_reduce, false));
}

TEST(OpTraits, OfWhatIsNoOperationAreNone) {
  const auto none = static_cast<OpType>(op_type_count);
  EXPECT_EQ(traits_of(none).name, "unknown");
  EXPECT_FALSE(is_collective(none) || reduces(none) || has_root(none) || has_blocks(none));
  EXPECT_EQ(traits_of(static_cast<DataType>(255)).family, DataFamily::opaque);
  EXPECT_EQ(traits_of(static_cast<ReduceKind>(255)).family, ReduceFamily::opaque);
}

}  // namespace
}  // namespace hymn
