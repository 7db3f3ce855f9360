// gather, scatter, all_gather and reduce_scatter: flat, as lists, and uneven.
#include <complex>
#include <numeric>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

// --- gather
// ---------------------------------------------------------------------------------------

RANK_TEST(Gather, EveryDtypeFlatToEveryRoot) {
  for (const DataType dtype : all_dtypes())
    for (int root = 0; root < world.size(); ++root) {
      const Buffer in = filled(dtype, 13, world.rank());
      BlockBuffer out(dtype, world.size(), 13);
      const bool here = world.rank() == root;
      world.group().gather(in, here ? out.view() : BufferView(), root);
      if (here)
        out.expect_from_all();
      else
        out.expect_untouched();
    }
}

RANK_TEST(Gather, EveryCount) {
  for (const std::size_t each : every_count) {
    const Buffer in = filled(DataType::int32, each, world.rank());
    BlockBuffer out(DataType::int32, world.size(), each);
    world.group().gather(in, out.view(), 0);
    if (world.rank() == 0) out.expect_from_all();
  }
}

RANK_TEST(Gather, ListToEveryRoot) {
  for (int root = 0; root < world.size(); ++root) {
    const Buffer in = filled(DataType::float32, 9, world.rank());
    ListBuffer out(DataType::float32, std::vector<std::size_t>(ranks_as_size(world), 9));
    if (world.rank() == root) {
      world.group().gather(in, out.views(), root);
      out.expect_from_all();
    } else {
      world.group().gather(in, std::span<const BufferView>(), root);
    }
  }
}

RANK_TEST(Gather, UnevenToEveryRoot) {
  const std::vector<std::size_t> counts = uneven_counts(world.size());
  for (int root = 0; root < world.size(); ++root) {
    const Buffer in = filled(DataType::uint8, counts[as_size(world.rank())], world.rank());
    BlockBuffer out(DataType::uint8, counts);
    const bool here = world.rank() == root;
    world.group().gather(in, here ? out.view() : BufferView(), counts, root);
    if (here) out.expect_from_all();
  }
}

RANK_TEST(Gather, UnevenAsAList) {
  const std::vector<std::size_t> counts = uneven_counts(world.size());
  const Buffer in = filled(DataType::float64, counts[as_size(world.rank())], world.rank());
  ListBuffer out(DataType::float64, counts);
  if (world.rank() == 0) {
    world.group().gather(in, out.views(), 0);
    out.expect_from_all();
  } else {
    world.group().gather(in, std::span<const BufferView>(), 0);
  }
}

RANK_TEST(Gather, test_gather) {
  const bool here = world.rank() == 0;
  std::vector<std::vector<float>> out(here ? ranks_as_size(world) : 0, std::vector<float>(9));
  const std::vector<BufferView> views(out.begin(), out.end());
  const std::vector<float> in(9, static_cast<float>(world.rank()));
  world.group().gather(in, views, 0);
  for (std::size_t rank = 0; rank < out.size(); ++rank)
    EXPECT_EQ(out[rank], std::vector(9, static_cast<float>(rank)));
}

// --- scatter
// --------------------------------------------------------------------------------------

RANK_TEST(Scatter, EveryDtypeFlatFromEveryRoot) {
  for (const DataType dtype : all_dtypes())
    for (int root = 0; root < world.size(); ++root) {
      BlockBuffer in(dtype, world.size(), 13);
      in.fill_for_each(root);
      Buffer out(dtype, 13);
      world.group().scatter(world.rank() == root ? in.view() : BufferView(), out, root);
      expect_filled(out, root, world.rank());
      EXPECT_TRUE(out.guards_intact());
    }
}

RANK_TEST(Scatter, EveryCount) {
  for (const std::size_t each : every_count) {
    BlockBuffer in(DataType::float64, world.size(), each);
    in.fill_for_each(0);
    Buffer out(DataType::float64, each);
    world.group().scatter(world.rank() == 0 ? in.view() : BufferView(), out, 0);
    expect_filled(out, 0, world.rank());
  }
}

RANK_TEST(Scatter, ListAndUnevenFromEveryRoot) {
  const std::vector<std::size_t> counts = uneven_counts(world.size());
  for (int root = 0; root < world.size(); ++root) {
    const bool here = world.rank() == root;
    Buffer out(DataType::int64, counts[as_size(world.rank())]);
    BlockBuffer flat(DataType::int64, counts);
    flat.fill_for_each(root);
    world.group().scatter(here ? flat.view() : BufferView(), counts, out, root);
    expect_filled(out, root, world.rank());

    Buffer again(DataType::int64, out.count());
    ListBuffer list(DataType::int64, counts);
    list.fill_for_each(root);
    const auto views = list.const_views();
    world.group().scatter(here ? std::span(views) : std::span<const ConstBufferView>(), again,
                          root);
    expect_filled(again, root, world.rank());
    EXPECT_TRUE(again.guards_intact());
  }
}

RANK_TEST(Scatter, test_scatter) {
  std::vector<std::vector<float>> in;
  for (int rank = 0; world.rank() == 0 && rank < world.size(); ++rank)
    in.emplace_back(9, static_cast<float>(rank));
  const std::vector<ConstBufferView> views(in.begin(), in.end());
  std::vector<float> out(9);
  world.group().scatter(views, out, 0);
  EXPECT_EQ(out, std::vector(9, static_cast<float>(world.rank())));
}

// --- all_gather
// -----------------------------------------------------------------------------------

RANK_TEST(AllGather, EveryDtypeFlat) {
  for (const DataType dtype : all_dtypes()) {
    const Buffer in = filled(dtype, 65, world.rank());
    BlockBuffer out(dtype, world.size(), 65);
    world.group().all_gather(in, out.view());
    out.expect_from_all();
  }
}

RANK_TEST(AllGather, EveryCount) {
  for (const std::size_t each : every_count) {
    const Buffer in = filled(DataType::float32, each, world.rank());
    BlockBuffer out(DataType::float32, world.size(), each);
    world.group().all_gather(in, out.view());
    out.expect_from_all();
  }
}

RANK_TEST(AllGather, InPlace) {
  BlockBuffer out(DataType::float32, world.size(), 33);
  const BufferView mine = out.block(world.rank());
  fill(mine, world.rank());
  world.group().all_gather(mine, out.view());
  out.expect_from_all();
}

RANK_TEST(AllGather, ListAndUneven) {
  const std::vector<std::size_t> counts = uneven_counts(world.size());
  const Buffer in = filled(DataType::float16, counts[as_size(world.rank())], world.rank());
  ListBuffer list(DataType::float16, counts);
  world.group().all_gather(in, list.views());
  list.expect_from_all();

  BlockBuffer flat(DataType::float16, counts);
  world.group().all_gather(in, flat.view(), counts);
  flat.expect_from_all();
}

RANK_TEST(AllGather, test_allgather) {
  const std::vector<float> in(9, static_cast<float>(world.rank()));
  std::vector<std::vector<float>> out(ranks_as_size(world), std::vector<float>(9));
  const std::vector<BufferView> views(out.begin(), out.end());
  world.group().all_gather(in, views);
  for (std::size_t rank = 0; rank < out.size(); ++rank)
    EXPECT_EQ(out[rank], std::vector(9, static_cast<float>(rank)));
}

RANK_TEST(AllGather, MixesComplexWithItsRealView) {
  // A complex buffer of 5 is a real one of 10 in the same memory.
  std::vector<std::complex<float>> in(5, {static_cast<float>(world.rank()), -1.0f});
  const ConstBufferView parts(in.data(), 10, DataType::float32);
  std::vector<float> out(10 * ranks_as_size(world));
  world.group().all_gather(parts, out);
  for (std::size_t i = 0; i < out.size(); i += 2) {
    EXPECT_EQ(out[i], static_cast<float>(i / 10));
    EXPECT_EQ(out[i + 1], -1.0f);
  }
}

RANK_TEST(AllGather, test_tensor_dtype_complex) {
  const auto me = static_cast<float>(world.rank());
  const std::vector<float> reals{me, -me};
  const std::vector<std::complex<float>> complex{{me, -me}};
  const std::size_t ranks = ranks_as_size(world);
  std::vector<std::vector<float>> out(ranks, std::vector<float>(2));
  const std::vector<BufferView> views(out.begin(), out.end());
  std::vector<std::complex<float>> one(1);
  std::vector<BufferView> mixed = views;
  mixed.back() = one;
  const auto expect_gathered = [&](bool is_mixed) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto value = static_cast<float>(rank);
      if (is_mixed && rank + 1 == ranks)
        EXPECT_EQ(one.front(), std::complex<float>(value, -value));
      else
        EXPECT_EQ(out[rank], (std::vector<float>{value, -value}));
    }
    for (std::vector<float>& block : out) block = {9.0f, 9.0f};
    one.front() = {9.0f, 9.0f};
  };
  ProcessGroup& group = world.group();
  group.all_gather(complex, views);
  expect_gathered(false);
  group.all_gather(reals, mixed);
  expect_gathered(true);
  group.all_gather(complex, mixed);
  expect_gathered(true);
  group.all_gather_async(complex, mixed).wait();
  expect_gathered(true);
  // Other types are no views of each other.
  std::vector<double> doubles(2);
  mixed.back() = doubles;
  expect_refused(group, ErrorKind::usage, "all_gather", [&] { group.all_gather(reals, mixed); },
                 {"tensors with different dtypes", "float32 and float64"});
}

// --- reduce_scatter
// -------------------------------------------------------------------------------

RANK_TEST(ReduceScatter, EveryDtypeAndOperation) {
  constexpr std::size_t each = 17;
  for (const DataType dtype : all_dtypes())
    for (const ReduceKind kind : all_kinds()) {
      if (!is_defined(dtype, kind)) continue;
      SCOPED_TRACE(cell_name(dtype, kind));
      const Buffer in = reduction_input(dtype, kind, world.rank(), each * ranks_as_size(world));
      const Buffer before = in;
      Buffer out(dtype, each);
      world.group().reduce_scatter(in, out, op_of(kind, dtype, world.rank()));
      expect_equal(reduction_result(dtype, kind, ranks_of(world.group()), each,
                                    each * as_size(world.rank())),
                   out);
      expect_equal(before, in);
      EXPECT_TRUE(out.guards_intact());
    }
}

/// Reduces blocks of these sizes, as one buffer or as a list.
void check_reduce_scatter(World& world, std::span<const std::size_t> counts, bool as_list) {
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto before = counts.first(as_size(world.rank()));
  const std::size_t first = std::accumulate(before.begin(), before.end(), std::size_t{0});
  for (const auto& [dtype, kind] :
       {std::pair(DataType::float32, ReduceKind::sum), std::pair(DataType::uint8, ReduceKind::sum),
        std::pair(DataType::bfloat16, ReduceKind::avg)}) {
    SCOPED_TRACE(cell_name(dtype, kind));
    Buffer in = reduction_input(dtype, kind, world.rank(), total);
    Buffer out(dtype, counts[as_size(world.rank())]);
    if (as_list) {
      std::vector<ConstBufferView> blocks;
      InputBlocks::counted(in, counts).for_each(world.size(), [&](int, ConstBufferView block) {
        blocks.push_back(block);
      });
      world.group().reduce_scatter(blocks, out, ReduceOp::of(kind));
    } else {
      world.group().reduce_scatter(in, counts, out, ReduceOp::of(kind));
    }
    expect_equal(reduction_result(dtype, kind, ranks_of(world.group()), out.count(), first), out);
    EXPECT_TRUE(out.guards_intact());
  }
}

RANK_TEST(ReduceScatter, ListAndUneven) {
  for (const bool as_list : {false, true}) {
    check_reduce_scatter(world, uneven_counts(world.size()), as_list);
    for (const std::size_t each : every_count)
      check_reduce_scatter(world, std::vector(ranks_as_size(world), each), as_list);
  }
}

RANK_TEST(ReduceScatter, test_reduce_scatter) {
  std::vector<std::vector<float>> list;
  for (int rank = 0; rank < world.size(); ++rank) list.emplace_back(9, static_cast<float>(rank));
  const std::vector<ConstBufferView> in(list.begin(), list.end());
  std::vector<float> out(9);
  world.group().reduce_scatter(in, out);
  EXPECT_EQ(out, std::vector(9, static_cast<float>(world.rank() * world.size())));
  world.group().reduce_scatter(in, out, ReduceOp::avg);
  EXPECT_EQ(out, std::vector(9, static_cast<float>(world.rank())));
}

RANK_TEST(ReduceScatter, InPlace) {
  constexpr std::size_t each = 21;
  Buffer in = reduction_input(DataType::float64, ReduceKind::sum, world.rank(),
                              each * ranks_as_size(world));
  const std::size_t first = each * as_size(world.rank());
  const BufferView mine = in.slice(first, each);
  world.group().reduce_scatter(in, mine);
  expect_equal(
      reduction_result(DataType::float64, ReduceKind::sum, ranks_of(world.group()), each, first),
      mine);
}

}  // namespace
}  // namespace hymn::test
