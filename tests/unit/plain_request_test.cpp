// What is plainly right must be right: the few questions against all of them.
#include "collectives/plain_request.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "collectives/validate.hpp"
#include "hymn/error.hpp"
#include "hymn/process_group.hpp"

namespace hymn::test {
namespace {

constexpr GroupShape shape{.rank = 1, .size = 3};
float all_elements[64];

BufferView elements(std::size_t offset, std::size_t count) {
  return BufferView(all_elements).slice(offset, count);
}

bool is_right(const Request& request, int root) {
  try {
    validate(request, shape, root);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// Every collective but barrier on these two buffers, and on the output alone; and messages.
std::vector<Request> requests_on(ConstBufferView in, BufferView out) {
  const auto parts = [](auto view) { return Blocks<decltype(view)>::equal(view); };
  return {Request::all_reduce(in, out),
          Request::broadcast(out, 0),
          Request::reduce(in, out, 0),
          Request::gather(in, parts(out), 0),
          Request::scatter(parts(in), out, 0),
          Request::all_gather(in, parts(out)),
          Request::reduce_scatter(parts(in), out),
          Request::all_to_all(parts(in), parts(out)),
          Request::send(in, 2),
          Request::send(in, 2, ProcessGroup::max_tag + 1),
          Request::recv(out, 2, ProcessGroup::max_tag),
          Request::recv(out, any_source, -1)};
}

/// The same buffer, but for one thing.
std::vector<BufferView> variants(BufferView view) {
  static constexpr std::array<std::int64_t, 2> dimensions = {2, 3};
  static const OpaqueType type{};
  std::vector<BufferView> all(10, view);
  all[1].data = nullptr;
  all[2].dtype = DataType::float64;
  all[3].memory = MemoryKind::device;
  all[4].opaque = &type;
  all[5].shape = dimensions;
  all[6].strides = dimensions;
  all[7].count = std::size_t{1} << 33;
  all[8].dtype = DataType::opaque;
  all[9].dtype = static_cast<DataType>(77);
  return all;
}

TEST(PlainRequest, IsRightWhenItIsPlainlyRight) {
  int plain = 0;
  for (const std::size_t in_count : {0u, 1u, 2u, 3u, 6u})
    for (const std::size_t out_count : {0u, 1u, 2u, 3u, 6u})
      for (std::size_t out_at = 0; out_at < 40; ++out_at)
        for (const BufferView& in : variants(elements(20, in_count)))
          for (const BufferView& out : variants(elements(out_at, out_count)))
            for (const Request& request : requests_on(in, out))
              for (const int root : {-1, 0, 1}) {
                if (!is_plainly_right(request, shape, root)) continue;
                ++plain;
                ASSERT_TRUE(is_right(request, root))
                    << to_string(request.type) << " of " << in_count << " at 20 to " << out_count
                    << " at " << out_at << ", root " << root;
              }
  EXPECT_GT(plain, 10'000);
}

TEST(PlainRequest, CoversTheUsualCalls) {
  for (const int root : {0, 1})
    for (const Request& request : {
             Request::all_reduce(elements(0, 6), elements(0, 6)),
             Request::all_reduce(elements(0, 6), elements(6, 6)),
             Request::broadcast(elements(0, 6), 0),
             Request::reduce(elements(0, 6), elements(6, 6), 0),
             Request::gather(elements(0, 2), OutputBlocks::equal(elements(2, 6)), 0),
             Request::scatter(InputBlocks::equal(elements(0, 6)), elements(6, 2), 0),
             Request::all_gather(elements(0, 2), OutputBlocks::equal(elements(2, 6))),
             Request::reduce_scatter(InputBlocks::equal(elements(0, 6)), elements(6, 2)),
             Request::send(elements(0, 6), 2, 5),
             Request::recv(elements(0, 6), 2, 5),
         })
      EXPECT_TRUE(is_plainly_right(request, shape, root)) << to_string(request.type);
}

TEST(PlainRequest, LeavesOperationsOfOtherLibrariesToBeLookedAt) {
  for (const void* const handle :
       {static_cast<const void*>(nullptr), static_cast<const void*>(&shape)})
    EXPECT_FALSE(is_plainly_right(
        Request::all_reduce(elements(0, 6), elements(6, 6), ReduceOp::opaque(handle)), shape, -1));
}

// Given counts are the same on all ranks, also where nothing else of that side is looked at.
TEST(PlainRequest, LeavesGivenCountsToBeCompared) {
  const std::array<std::size_t, 3> counts = {1, 2, 3};
  const Request gather =
      Request::gather(elements(0, 3), OutputBlocks::counted(elements(6, 6), counts), 0);
  EXPECT_FALSE(is_plainly_right(gather, shape, 0));
  EXPECT_FALSE(is_right(gather, 0));
}

}  // namespace
}  // namespace hymn::test
