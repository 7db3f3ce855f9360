// HYMN_NAN_CHECK and GroupOptions::nan_check: a NaN is found on the rank that would send it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

RANK_TEST(NanCheck, RefusesWhereTheNanIs) {
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  std::vector<float> values(100, 1.0f);
  if (world.rank() == 0) {
    values[57] = nan;
    const Words words = {"element 57 of the 100", "float32", "all_reduce", "NaN", "[rank 0,"};
    expect_error(ErrorKind::usage, [&] { group.all_reduce(values); }, words);
    expect_error(ErrorKind::usage, [&] { (void)group.all_reduce_async(values); }, words);
    EXPECT_EQ(group.collective_sequence(), 0u);
    EXPECT_EQ(values[56], 1.0f);
    values[57] = 1.0f;
  }
  // The others have waited for the right call.
  group.all_reduce(values);
  EXPECT_EQ(values[57], static_cast<float>(world.size()));
  EXPECT_EQ(group.collective_sequence(), 1u);
}

/// Every rank holds one somewhere among 10 by 10 of its rank.
template <class T>
void check_nan_assert(World& world, const char* type) {
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  std::vector<T> values(100, T(static_cast<float>(world.rank())));
  values[static_cast<std::size_t>(world.rank() * 37 % 100)] = T(nan);
  expect_refused(group, ErrorKind::usage, "all_reduce", [&] { group.all_reduce(values); },
                 {"NaN", type});
  group.destroy();
}

RANK_TEST(NanCheck, test_nan_assert_float16) { check_nan_assert<float16>(world, "float16"); }
RANK_TEST(NanCheck, test_nan_assert_float32) { check_nan_assert<float>(world, "float32"); }
RANK_TEST(NanCheck, test_nan_assert_float64) { check_nan_assert<double>(world, "float64"); }

RANK_TEST(NanCheck, LooksOnlyAtWhatIsSent) {
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  const std::size_t ranks = ranks_as_size(world);
  std::vector<double> holes(ranks, std::nan(""));
  const bool root = world.rank() == 0;
  double mine = root ? 3.0 : std::nan("");
  group.broadcast(view_of(mine), 0);
  EXPECT_EQ(mine, 3.0);
  group.all_gather(view_of(mine), holes);
  EXPECT_EQ(holes.back(), 3.0);
  std::fill(holes.begin(), holes.end(), std::nan(""));
  group.gather(view_of(mine), BufferView(holes).slice(0, root ? ranks : 0), 0);
  // Beside the root the input of a scatter is not read.
  std::vector<double> given(ranks, root ? 5.0 : std::nan(""));
  group.scatter(given, view_of(mine), 0);
  EXPECT_EQ(mine, 5.0);
}

RANK_TEST(NanCheck, OfMessages) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  std::vector<float> values(3, world.rank() == 0 ? 1.0f : nan);
  if (world.rank() == 1) group.recv(values, 0);
  if (world.rank() != 0) return;
  values[2] = nan;
  expect_error(ErrorKind::usage, [&] { group.send(values, 1); }, {"element 2", "send"});
  expect_error(ErrorKind::usage, [&] { (void)group.isend(values, 1); }, {"element 2", "send"});
  const std::vector<P2POp> batch = {P2POp::send(values, 1)};
  expect_error(ErrorKind::usage, [&] { (void)group.batch_isend_irecv(batch); },
               {"element 2", "send"});
  EXPECT_EQ(group.p2p_sequence(), 0u);
  values[2] = std::numeric_limits<float>::infinity();
  group.send(values, 1);
}

RANK_TEST(NanCheck, NamesTheBufferOfAList) {
  ProcessGroup group = fresh_group(world, {.nan_check = true});
  std::vector<float16> values(2 * ranks_as_size(world), float16(1.0f));
  std::vector<float16> out(2);
  std::vector<ConstBufferView> list;
  for (std::size_t i = 0; i < ranks_as_size(world); ++i)
    list.push_back(BufferView(values).slice(2 * i, 2));
  values.back() = float16(nan);
  const std::string place = "buffer #" + std::to_string(world.size()) + " of its list";
  expect_error(ErrorKind::usage, [&] { group.reduce_scatter(list, out); },
               {"element 1 of the 2", "float16", place, "reduce_scatter"});
  world.group().barrier();  // nobody ends before all have called
}

RANK_TEST(NanCheck, IsOffUnlessAskedFor) {
  ProcessGroup group = fresh_group(world);
  float value = nan;
  group.all_reduce(view_of(value));
  EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace hymn::test
