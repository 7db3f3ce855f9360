// What is found wrong with a request on one rank: every refusal, and what must not be refused.
// (tests/ranks/bad_input_test.cpp shows that nothing is sent then, and that the group goes on.)
#include "collectives/validate.hpp"
#include "collectives/dispatch/locate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>

#include "collectives/located_request.hpp"
#include "collectives/validate_view.hpp"
#include "hymn/error.hpp"
#include "hymn/process_group.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return std::string("usage: ") + error.what();
  } catch (const UnsupportedError& error) {
    return std::string("unsupported: ") + error.what();
  }
  return "fine";
}

/// Rank 1 of 3 validates it; `root` is a group rank.
std::string verdict(const Request& request, int root = -1) {
  return text_of([&] { validate(request, {.rank = 1, .size = 3}, root); });
}

float memory[60];
BufferView part(std::size_t offset, std::size_t count) {
  return BufferView(memory).slice(offset, count);
}

TEST(ValidateView, CountsAndPointers) {
  const auto of = [](void* data, std::size_t count, DataType dtype) {
    return text_of([&] { validate_view("input", ConstBufferView(data, count, dtype)); });
  };
  EXPECT_EQ(of(nullptr, 0, DataType::float32), "fine");
  EXPECT_EQ(of(memory, 0, DataType::float32), "fine");
  EXPECT_THAT(of(nullptr, 1, DataType::float32), HasSubstr("input buffer is null"));
  EXPECT_THAT(of(memory, static_cast<std::size_t>(-3), DataType::uint8), HasSubstr("as -3"));
  // The last count that could be, and the first that could not.
  const std::size_t most = (std::size_t{1} << 63) / 16 - 1;
  EXPECT_EQ(of(memory, most, DataType::complex128), "fine");
  EXPECT_THAT(of(memory, most + 1, DataType::complex128), HasSubstr("more than memory can hold"));
  EXPECT_THAT(of(memory, 4, static_cast<DataType>(77)),
              HasSubstr("dtype is 77, which is not a valid one"));
}

TEST(ValidateView, MemoryAndOpaqueTypes) {
  BufferView view = part(0, 4);
  const auto refused = [&view] { return text_of([&] { validate_view("output", view); }); };
  for (const MemoryKind kind : {MemoryKind::host, MemoryKind::pinned, MemoryKind::managed}) {
    view.memory = kind;
    EXPECT_EQ(refused(), "fine") << to_string(kind);
  }
  view.memory = MemoryKind::device;
  EXPECT_EQ(refused(), "fine") << "where it is, is locate()'s question";
  EXPECT_THAT(text_of([&] { locate(Request::all_reduce(view, view), false, nullptr, {}); }),
              HasSubstr("unsupported: the input buffer is in device memory"));
  view = part(0, 4);
  const OpaqueType type{.handle = memory, .library = "mpi", .element_bytes = 12};
  view.opaque = &type;  // of a type that is not opaque
  EXPECT_THAT(refused(), HasSubstr("opaque"));
  view.dtype = DataType::opaque;
  EXPECT_EQ(refused(), "fine");
  const OpaqueType nothing{.handle = nullptr, .library = "mpi", .element_bytes = 12};
  view.opaque = &nothing;
  EXPECT_THAT(refused(), HasSubstr("has no handle"));
  view.opaque = nullptr;
  EXPECT_THAT(refused(), HasSubstr("opaque"));
}

TEST(Validate, OperationsOfOtherLibrariesHaveHandles) {
  const auto with = [](const void* handle) {
    return verdict(Request::all_reduce(part(0, 4), part(4, 4), ReduceOp::opaque(handle)));
  };
  EXPECT_EQ(with(memory), "fine");
  EXPECT_THAT(with(nullptr), HasSubstr("usage: the operation of another library has no handle"));
}

TEST(ValidateView, Layouts) {
  using Numbers = std::vector<std::int64_t>;
  const auto of = [](std::size_t count, const Numbers& shape, const Numbers& strides) {
    BufferView view = part(0, count);
    view.shape = shape;
    view.strides = strides;
    return text_of([&] { validate_view("input", view); });
  };
  EXPECT_EQ(of(24, {2, 3, 4}, {}), "fine");
  EXPECT_EQ(of(24, {2, 3, 4}, {12, 4, 1}), "fine");
  EXPECT_EQ(of(24, {2, 3, 4}, {12, 1, 3}), "fine");  // channels last
  EXPECT_EQ(of(24, {2, 3, 4}, {1, 2, 6}), "fine");
  EXPECT_EQ(of(6, {1, 6, 1}, {99, 1, -5}), "fine");  // the stride of a single element is no matter
  EXPECT_EQ(of(0, {0, 3}, {7, 7}), "fine");
  EXPECT_EQ(of(1, {1}, {5}), "fine");
  EXPECT_THAT(of(24, {2, 3, 5}, {}), HasSubstr("holds 30 elements, its count is 24"));
  EXPECT_THAT(of(6, {-2, -3}, {}), HasSubstr("size of -2"));
  EXPECT_THAT(of(0, {1ll << 40, 1ll << 40}, {}), HasSubstr("shape has a size"));
  EXPECT_THAT(of(6, {2, 3}, {1}), HasSubstr("2 dimensions but 1 strides"));
  EXPECT_THAT(of(6, {}, {1}), HasSubstr("holds 1 elements"));
  for (const Numbers& strides : {Numbers{4, 1}, {6, 2}, {1, 1}, {0, 1}, {-3, 1}, {3, 0}})
    EXPECT_THAT(of(6, {2, 3}, strides), HasSubstr("gaps or overlaps")) << strides.front();
}

TEST(ValidateView, Overlaps) {
  const auto overlaps = [](std::size_t a, std::size_t a_count, std::size_t b, std::size_t b_count) {
    const bool one_way = overlap(part(a, a_count), part(b, b_count));
    EXPECT_EQ(one_way, overlap(part(b, b_count), part(a, a_count)));
    return one_way;
  };
  EXPECT_FALSE(overlaps(0, 4, 4, 4));
  EXPECT_TRUE(overlaps(0, 5, 4, 4));
  EXPECT_TRUE(overlaps(0, 10, 4, 1));
  EXPECT_TRUE(overlaps(3, 3, 3, 3));
  EXPECT_FALSE(overlaps(0, 10, 4, 0));
}

TEST(Validate, WholeBuffers) {
  EXPECT_EQ(verdict(Request::all_reduce(part(0, 4), part(4, 4))), "fine");
  EXPECT_EQ(verdict(Request::all_reduce(part(0, 4), part(0, 4))), "fine");
  EXPECT_EQ(verdict(Request::broadcast(part(0, 4), 2), 2), "fine");
  EXPECT_EQ(verdict(Request::barrier()), "fine");
  EXPECT_THAT(verdict(Request::all_reduce(part(0, 4), part(4, 5))),
              HasSubstr("output buffer is 5 elements where 4 are needed"));
  EXPECT_THAT(verdict(Request::all_reduce(part(0, 4), part(2, 4))), HasSubstr("overlap"));
  std::int32_t other[4];
  EXPECT_THAT(verdict(Request::all_reduce(part(0, 4), BufferView(other))),
              HasSubstr("different dtypes in one call: float32 and int32"));
}

TEST(Validate, OfARootedCollectiveOnlyTheRootsSideCounts) {
  const BufferView bad(nullptr, 7, DataType::int8);
  for (const int root : {0, 1}) {
    const std::string expected = root == 1 ? "usage: " : "fine";
    const auto begins = ::testing::StartsWith(expected);
    EXPECT_THAT(verdict(Request::reduce(part(0, 4), bad, 9), root), begins);
    EXPECT_THAT(verdict(Request::gather(part(0, 4), OutputBlocks::equal(bad), 9), root), begins);
    EXPECT_THAT(verdict(Request::gather(part(0, 4), OutputBlocks(), 9), root), begins);
    EXPECT_THAT(verdict(Request::scatter(InputBlocks::equal(bad), part(0, 4), 9), root), begins);
    EXPECT_THAT(verdict(Request::scatter(InputBlocks(), part(0, 4), 9), root), begins);
  }
}

TEST(Validate, EqualBlocks) {
  const auto gather = [](std::size_t own, std::size_t all) {
    return verdict(Request::all_gather(part(50, own), OutputBlocks::equal(part(0, all))));
  };
  EXPECT_EQ(gather(4, 12), "fine");
  EXPECT_EQ(gather(0, 0), "fine");
  EXPECT_THAT(gather(4, 11), HasSubstr("output buffer is 11 elements where 3 ranks of 4"));
  EXPECT_THAT(gather(0, 3), HasSubstr("usage"));
  // Three times this many would wrap to 1.
  const BufferView wrapping(memory, ~std::size_t{0} / 3 + 1, DataType::int8);
  EXPECT_THAT(verdict(Request::all_gather(
                  wrapping, OutputBlocks::equal(BufferView(memory + 50, 2, DataType::int8)))),
              HasSubstr("usage"));
  EXPECT_EQ(verdict(Request::reduce_scatter(InputBlocks::equal(part(0, 12)), part(20, 4))), "fine");
  EXPECT_THAT(verdict(Request::reduce_scatter(InputBlocks::equal(part(0, 13)), part(20, 4))),
              HasSubstr("input buffer is 13"));
}

TEST(Validate, CountedBlocks) {
  using Counts = std::vector<std::size_t>;
  const auto gather = [](std::size_t own, std::size_t all, const Counts& counts, int root = -1) {
    const OutputBlocks out = OutputBlocks::counted(part(0, all), counts);
    return verdict(
        root < 0 ? Request::all_gather(part(50, own), out) : Request::gather(part(50, own), out, 9),
        root);
  };
  EXPECT_EQ(gather(2, 9, {4, 2, 3}), "fine");
  EXPECT_EQ(gather(0, 4, {4, 0, 0}), "fine");
  EXPECT_THAT(gather(2, 9, {4, 5}), HasSubstr("2 counts are given for 3 ranks"));
  EXPECT_THAT(gather(3, 9, {4, 2, 3}), HasSubstr("own count is 3 elements where 2 are needed"));
  EXPECT_THAT(gather(2, 10, {4, 2, 3}), HasSubstr("output buffer is 10 elements where 9"));
  EXPECT_THAT(gather(2, 9, {~std::size_t{0}, 2, 8}), HasSubstr("given counts"));
  // Counts are the same on all ranks, so those of another root's gather are looked at, too.
  EXPECT_EQ(gather(2, 0, {4, 2, 3}, 0), "fine");
  EXPECT_THAT(gather(2, 0, {4, 5}, 0), HasSubstr("2 counts"));
  EXPECT_THAT(gather(3, 0, {4, 2, 3}, 0), HasSubstr("own count"));
}

TEST(Validate, Lists) {
  const std::vector<BufferView> three = {part(0, 4), part(4, 2), part(6, 4)};
  const auto gather = [](std::size_t own, const std::vector<BufferView>& list) {
    return verdict(Request::all_gather(part(50, own), OutputBlocks::list(list)));
  };
  EXPECT_EQ(gather(2, three), "fine");
  EXPECT_THAT(gather(4, three), HasSubstr("own output buffer is 2 elements where 4"));
  EXPECT_THAT(gather(2, {part(0, 4), part(4, 2)}),
              HasSubstr("a list of 2 output buffers is given for 3 ranks"));
  EXPECT_THAT(gather(2, {}), HasSubstr("a list of 0"));
  EXPECT_THAT(gather(2, {part(0, 4), part(3, 2), part(6, 4)}), HasSubstr("overlap"));
  EXPECT_THAT(gather(2, {part(49, 4), part(4, 2), part(6, 4)}), HasSubstr("overlap"));
  EXPECT_EQ(verdict(Request::all_gather(part(4, 2), OutputBlocks::list(three))), "fine");
  const std::vector<BufferView> empty = {part(0, 0), part(0, 0), part(0, 0)};
  EXPECT_EQ(gather(0, empty), "fine");
}

TEST(Validate, InPlaceIsTheOwnBlockExactly) {
  const OutputBlocks out = OutputBlocks::equal(part(0, 12));
  EXPECT_EQ(verdict(Request::all_gather(part(4, 4), out)), "fine");
  EXPECT_THAT(verdict(Request::all_gather(part(0, 4), out)), HasSubstr("overlap"));
  EXPECT_THAT(verdict(Request::all_gather(part(5, 4), out)), HasSubstr("overlap"));
  const InputBlocks in = InputBlocks::equal(part(0, 12));
  EXPECT_EQ(verdict(Request::reduce_scatter(in, part(4, 4))), "fine");
  EXPECT_THAT(verdict(Request::reduce_scatter(in, part(8, 4))), HasSubstr("overlap"));
}

TEST(Validate, AllToAll) {
  const auto equal = [](std::size_t in, std::size_t out, std::size_t at) {
    return verdict(
        Request::all_to_all(InputBlocks::equal(part(0, in)), OutputBlocks::equal(part(at, out))));
  };
  EXPECT_EQ(equal(12, 12, 12), "fine");
  EXPECT_EQ(equal(12, 12, 0), "fine");
  EXPECT_THAT(equal(12, 9, 12), HasSubstr("output buffer is 9"));
  EXPECT_THAT(equal(13, 13, 13), HasSubstr("13 elements cannot be split equally over 3 ranks"));
  EXPECT_THAT(equal(12, 12, 11), HasSubstr("overlap"));
  const std::array<std::size_t, 3> given = {1, 2, 3};
  const std::array<std::size_t, 3> taken = {4, 2, 0};
  EXPECT_EQ(verdict(Request::all_to_all(InputBlocks::counted(part(0, 6), given),
                                        OutputBlocks::counted(part(6, 6), taken))),
            "fine");
  const std::array<std::size_t, 3> other_own = {4, 1, 1};
  EXPECT_THAT(verdict(Request::all_to_all(InputBlocks::counted(part(0, 6), given),
                                          OutputBlocks::counted(part(6, 6), other_own))),
              HasSubstr("own count is 2 elements where 1"));
}

TEST(Validate, AllToAllOfLists) {
  using List = std::vector<BufferView>;
  // Not in the order of their addresses, with one that holds nothing.
  const List apart = {part(20, 4), part(0, 4), part(7, 0)};
  const auto gives = [](const List& outputs, BufferView first, BufferView own) {
    const std::vector<ConstBufferView> inputs = {first, own, part(50, 1)};
    return verdict(Request::all_to_all(InputBlocks::list(inputs), OutputBlocks::list(outputs)));
  };
  const auto first = [&](std::size_t at, std::size_t count) {
    return gives(apart, part(at, count), part(40, 4));
  };
  EXPECT_EQ(first(4, 16), "fine");  // exactly between, around the empty one
  EXPECT_EQ(first(24, 3), "fine");
  for (const std::size_t at : {0, 2, 4, 7, 20, 22, 24}) EXPECT_EQ(first(at, 0), "fine") << at;
  for (const std::size_t at : {0, 1, 3, 20, 21, 23})
    EXPECT_THAT(first(at, 1), HasSubstr("usage: buffers of this call overlap")) << at;
  EXPECT_THAT(first(3, 10), HasSubstr("overlap"));   // the end of one
  EXPECT_THAT(first(10, 11), HasSubstr("overlap"));  // the beginning of another
  EXPECT_THAT(first(0, 30), HasSubstr("overlap"));   // all of them
  for (const std::size_t at : {0, 1, 17, 23})
    EXPECT_THAT(gives(apart, part(30, 2), part(at, 4)), HasSubstr("overlap")) << at;
  EXPECT_EQ(gives(apart, part(30, 2), part(16, 4)), "fine");
  EXPECT_THAT(gives({part(20, 4), part(0, 4), part(3, 2)}, part(30, 2), part(40, 4)),
              HasSubstr("overlap"));
  const List nothing = {part(20, 0), part(0, 0), part(20, 0)};
  EXPECT_EQ(gives(nothing, part(0, 30), part(20, 0)), "fine");
  // A list on one side only.
  const std::vector<ConstBufferView> inputs = {part(12, 4), part(16, 4), part(20, 4)};
  const auto takes = [&](std::size_t at) {
    return verdict(
        Request::all_to_all(InputBlocks::list(inputs), OutputBlocks::equal(part(at, 12))));
  };
  EXPECT_EQ(takes(0), "fine");
  EXPECT_EQ(takes(24), "fine");
  for (const std::size_t at : {1, 12, 23}) EXPECT_THAT(takes(at), HasSubstr("overlap")) << at;
}

TEST(Validate, Messages) {
  for (const int tag : {0, 1, ProcessGroup::max_tag}) {
    EXPECT_EQ(verdict(Request::send(part(0, 4), 0, tag)), "fine");
    EXPECT_EQ(verdict(Request::recv(part(0, 4), any_source, tag)), "fine");
  }
  for (const int tag : {-1, ProcessGroup::max_tag + 1}) {
    EXPECT_THAT(verdict(Request::send(part(0, 4), 0, tag)),
                HasSubstr("tag " + std::to_string(tag)));
    EXPECT_THAT(verdict(Request::recv(part(0, 4), 0, tag)), HasSubstr("tag"));
  }
  Request batch;
  batch.type = OpType::batch;
  EXPECT_THAT(verdict(batch), HasSubstr("batch_isend_irecv"));
}

TEST(ComplexViews, AreMatchedForAllGatherAlone) {
  std::array<std::complex<float>, 6> complexes;
  std::array<float, 12> reals;
  const auto gather = [](ConstBufferView in, BufferView out) {
    const Request given = Request::all_gather(in, OutputBlocks::equal(out));
    const auto matched = match_complex_views(given);
    return matched ? matched->inputs.flat() : given.inputs.flat();
  };
  const ConstBufferView widened = gather(BufferView(complexes).slice(0, 2), reals);
  EXPECT_EQ(widened.count, 4u);
  EXPECT_EQ(widened.dtype, DataType::float32);
  EXPECT_EQ(widened.data, complexes.data());
  const ConstBufferView narrowed = gather(BufferView(reals).slice(0, 4), complexes);
  EXPECT_EQ(narrowed.count, 2u);
  EXPECT_EQ(narrowed.dtype, DataType::complex64);
  EXPECT_THROW(gather(BufferView(reals).slice(0, 3), complexes), UsageError);
  std::array<double, 4> doubles;  // of another size: left for the dtypes to be compared
  EXPECT_EQ(gather(doubles, complexes).dtype, DataType::float64);
  EXPECT_EQ(gather(reals, reals).count, 12u);
  const Request reduction = Request::all_reduce(BufferView(complexes), BufferView(reals));
  EXPECT_EQ(match_complex_views(reduction), nullptr);
}

// Channels last: one dimension more for the parts.
TEST(ComplexViews, HaveTheLayoutOfWhatTheyAreOf) {
  std::array<std::complex<float>, 24> complexes;
  std::array<float, 48> reals;
  const std::vector<std::int64_t> extents{2, 3, 4};
  const std::vector<std::int64_t> strides{12, 1, 3};
  const std::vector<std::int64_t> parts_shape{2, 3, 4, 2};
  const std::vector<std::int64_t> parts_strides{24, 2, 6, 1};
  BufferView whole(complexes);
  whole.shape = extents;
  whole.strides = strides;
  BufferView parts(reals);
  parts.shape = parts_shape;
  parts.strides = parts_strides;
  const auto verdict_of = [](const BufferView& in, const BufferView& out) {
    return text_of([&] {
      const Request given = Request::all_gather(in, OutputBlocks::equal(out));
      const auto matched = match_complex_views(given);
      validate(matched ? *matched : given, {.rank = 0, .size = 1}, -1);
    });
  };
  const auto sizes = [](std::span<const std::int64_t> of) {
    return std::vector<std::int64_t>(of.begin(), of.end());
  };
  const auto widened = match_complex_views(Request::all_gather(whole, OutputBlocks::equal(parts)));
  EXPECT_EQ(sizes(widened->inputs.flat().shape), parts_shape);
  EXPECT_EQ(sizes(widened->inputs.flat().strides), parts_strides);
  const auto narrowed = match_complex_views(Request::all_gather(parts, OutputBlocks::equal(whole)));
  EXPECT_EQ(sizes(narrowed->inputs.flat().shape), extents);
  EXPECT_EQ(sizes(narrowed->inputs.flat().strides), strides);
  EXPECT_EQ(verdict_of(whole, parts), "fine");
  EXPECT_EQ(verdict_of(parts, whole), "fine");

  // Rows beside it, or parts that lie apart.
  BufferView rows = parts;
  rows.strides = {};
  EXPECT_THAT(verdict_of(whole, rows), HasSubstr("the elements would change places"));
  EXPECT_THAT(verdict_of(rows, whole), HasSubstr("the elements would change places"));
  const std::vector<std::int64_t> apart{8, 16, 2, 1};
  parts.strides = apart;
  EXPECT_THAT(verdict_of(whole, parts), HasSubstr("the elements would change places"));
  const std::vector<std::int64_t> planes{12, 1, 3, 24};
  parts.strides = planes;
  EXPECT_THAT(verdict_of(parts, whole), HasSubstr("no real view of complex elements"));
  EXPECT_THAT(verdict_of(whole, parts), HasSubstr("the elements would change places"));
}

// As where they are then found to be on a GPU.
TEST(ComplexViews, KeepTheirLayoutWhenTheRequestIsCopiedOnce) {
  std::array<std::complex<float>, 6> complexes;
  std::array<float, 12> reals;
  const std::vector<std::int64_t> extents{2, 3};
  const std::vector<std::int64_t> strides{1, 2};
  BufferView whole(complexes);
  whole.shape = extents;
  whole.strides = strides;
  auto matched = match_complex_views(Request::all_gather(whole, OutputBlocks::equal(reals)));
  const LocatedRequest located(*matched, MemoryKind::device);
  matched.reset();
  EXPECT_THAT(located.request.inputs.flat().shape, ElementsAre(2, 3, 2));
  EXPECT_THAT(located.request.inputs.flat().strides, ElementsAre(2, 4, 1));
}

TEST(ComplexViews, ImpossibleCountsStayImpossible) {
  std::array<float, 12> reals;
  const ConstBufferView negative(reals.data(), (std::size_t{1} << 63) + 2, DataType::complex64);
  EXPECT_THAT(text_of([&] {
                const Request given = Request::all_gather(negative, OutputBlocks::equal(reals));
                if (const auto matched = match_complex_views(given))
                  validate(*matched, {.rank = 0, .size = 3}, -1);
              }),
              HasSubstr("usage"));
}

}  // namespace
}  // namespace hymn::test
