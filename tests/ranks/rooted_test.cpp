// broadcast, reduce and barrier, from every root.
#include <chrono>
#include <thread>

#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

RANK_TEST(Broadcast, EveryDtypeFromEveryRoot) {
  for (const DataType dtype : all_dtypes())
    for (int root = 0; root < world.size(); ++root) {
      Buffer buffer(dtype, 65);
      if (world.rank() == root) fill(buffer, root);
      world.group().broadcast(buffer, root);
      expect_filled(buffer, root);
      EXPECT_TRUE(buffer.guards_intact());
    }
}

RANK_TEST(Broadcast, EveryCount) {
  for (const std::size_t count : every_count) {
    const int root = static_cast<int>(count) % world.size();
    Buffer buffer(DataType::float64, count);
    if (world.rank() == root) fill(buffer, root);
    world.group().broadcast(buffer, root);
    expect_filled(buffer, root);
  }
}

RANK_TEST(Broadcast, test_broadcast) {
  for (int root = 0; root < world.size(); ++root) {
    std::vector<float> ones(9, static_cast<float>(world.rank()));
    world.group().broadcast(ones, root);
    EXPECT_EQ(ones, std::vector(9, static_cast<float>(root)));
  }
}

RANK_TEST(Reduce, EveryDtypeAndOperation) {
  for (const DataType dtype : all_dtypes())
    for (const ReduceKind kind : all_kinds()) {
      if (!is_defined(dtype, kind)) continue;
      SCOPED_TRACE(cell_name(dtype, kind));
      const int root = static_cast<int>(dtype) % world.size();
      Buffer in = reduction_input(dtype, kind, world.rank(), 129);
      const Buffer before = in;
      Buffer out(dtype, 129);
      world.group().reduce(in, out, root, op_of(kind, dtype, world.rank()));
      expect_equal(before, in);
      if (world.rank() == root)
        expect_equal(reduction_result(dtype, kind, ranks_of(world.group()), 129), out);
      else
        expect_untouched(out);
    }
}

RANK_TEST(Reduce, EveryRootInPlaceAndNot) {
  for (int root = 0; root < world.size(); ++root)
    for (const std::size_t count : every_count) {
      const DataType dtype = DataType::float32;
      const Buffer expected =
          reduction_result(dtype, ReduceKind::sum, ranks_of(world.group()), count);
      Buffer buffer = reduction_input(dtype, ReduceKind::sum, world.rank(), count);
      const Buffer in = buffer;
      Buffer out(dtype, count);
      // Elsewhere the output is ignored, so that it need not exist.
      const bool here = world.rank() == root;
      world.group().reduce(in, here ? out.view() : BufferView(), root);
      world.group().reduce(buffer, root);
      EXPECT_TRUE(buffer.guards_intact());
      if (here) expect_equal(expected, out);
      if (here) expect_equal(expected, buffer);
    }
}

RANK_TEST(Reduce, EightBitSumsWrap) {
  for (const std::size_t count : byte_counts) {
    std::vector<std::int8_t> values(count, 100);
    world.group().reduce(values, 0);
    if (world.rank() == 0) {
      EXPECT_EQ(values, std::vector(count, static_cast<std::int8_t>(100 * world.size())));
    }
  }
}

RANK_TEST(Barrier, NobodyLeavesBeforeAllHaveCome) {
  using Clock = std::chrono::steady_clock;  // the same for all processes of a host
  for (int late = 0; late < world.size(); ++late) {
    if (world.rank() == late) std::this_thread::sleep_for(20ms);
    std::int64_t came = Clock::now().time_since_epoch().count();
    world.group().barrier();
    const std::int64_t left = Clock::now().time_since_epoch().count();
    world.group().all_reduce(view_of(came), ReduceOp::max);
    EXPECT_LE(came, left) << "rank " << late << " came late";
  }
}

RANK_TEST(Barrier, CountsAsACollective) {
  const std::uint64_t before = world.group().collective_sequence();
  world.group().barrier();
  world.group().barrier_async().wait();
  EXPECT_EQ(world.group().collective_sequence(), before + 2);
}

}  // namespace
}  // namespace hymn::test
