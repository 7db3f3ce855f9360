// What tests of torch.distributed on NCCL ask of any path, by their names (docs/seeds.md).
#include <array>
#include <numeric>
#include <vector>

#include "hymn/objects.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using Elements = std::vector<float>;

Elements ten_of(int value) { return Elements(10, static_cast<float>(value)); }

// --- In sub-groups of ranks 0 and 1, and of 2 and 3; roots and peers are global ranks

/// That of this rank; none from rank 4 on.
ProcessGroup own_half(World& world) {
  const ProcessGroup low = world.new_group({0, 1});
  const ProcessGroup high = world.new_group({2, 3});
  return world.rank() < 2 ? low : world.rank() < 4 ? high : ProcessGroup();
}

int even_of_half(const World& world) { return world.rank() / 2 * 2; }
bool is_even_rank(const World& world) { return world.rank() % 2 == 0; }

RANK_TEST(C10d, test_gather_subgroup) {
  NEEDS_RANKS(4);
  ProcessGroup half = own_half(world);
  if (!half.valid()) return;
  const int root = even_of_half(world);
  std::vector<Elements> gathered(is_even_rank(world) ? 2 : 0, ten_of(-1));
  const std::vector<BufferView> outputs(gathered.begin(), gathered.end());
  const Elements mine = ten_of(world.rank());
  half.gather(mine, outputs, root);
  if (is_even_rank(world)) {
    EXPECT_EQ(gathered, (std::vector<Elements>{ten_of(root), ten_of(root + 1)}));
  }
}

RANK_TEST(C10d, test_reduce_subgroup) {
  NEEDS_RANKS(4);
  ProcessGroup half = own_half(world);
  if (!half.valid()) return;
  const int root = even_of_half(world);
  Elements x = ten_of(world.rank());
  half.reduce(x, root);
  if (is_even_rank(world)) {
    EXPECT_EQ(x, ten_of(root + root + 1));
  }
}

void check_messages_in_half(World& world, bool async) {
  NEEDS_RANKS(4);
  ProcessGroup half = own_half(world);
  if (!half.valid()) return;
  Elements x = ten_of(is_even_rank(world) ? -1 : world.rank());
  const int peer = world.rank() ^ 1;
  if (async)
    (is_even_rank(world) ? half.irecv(x, peer) : half.isend(x, peer)).wait();
  else if (is_even_rank(world))
    half.recv(x, peer);
  else
    half.send(x, peer);
  EXPECT_EQ(x, ten_of(even_of_half(world) + 1));
}

RANK_TEST(C10d, test_send_recv_subgroup) { check_messages_in_half(world, false); }
RANK_TEST(C10d, test_send_recv_subgroup_async) { check_messages_in_half(world, true); }

RANK_TEST(C10d, test_broadcast_subgroup) {
  NEEDS_RANKS(4);
  ProcessGroup half = own_half(world);
  if (!half.valid()) return;
  const int root = even_of_half(world) + 1;
  Elements x = ten_of(is_even_rank(world) ? -1 : root);
  half.broadcast(x, root);
  EXPECT_EQ(x, ten_of(root));
}

RANK_TEST(C10d, test_scatter_subgroup) {
  NEEDS_RANKS(4);
  ProcessGroup half = own_half(world);
  if (!half.valid()) return;
  const int root = even_of_half(world) + 1;
  std::vector<Elements> given;
  if (!is_even_rank(world)) given = {ten_of(root - 1), ten_of(root)};
  const std::vector<ConstBufferView> inputs(given.begin(), given.end());
  Elements x = ten_of(-1);
  half.scatter(inputs, x, root);
  EXPECT_EQ(x, ten_of(world.rank()));
}

/// Rank i gives i + 1.
void expect_sum_of_next(ProcessGroup group, const World& world) {
  if (!group.is_member()) return;
  int sum = 0;
  for (const int rank : ranks_of(group)) sum += rank + 1;
  std::vector<std::int64_t> t(10, world.rank() + 1);
  group.all_reduce(t);
  EXPECT_EQ(t, std::vector<std::int64_t>(10, sum));
  group.barrier();
}

RANK_TEST(C10d, test_nccl_barrier) {
  NEEDS_RANKS(2);
  expect_sum_of_next(world.group(), world);
  expect_sum_of_next(world.new_group({0, 1}), world);
  expect_sum_of_next(world.new_group({0}), world);
  expect_sum_of_next(world.new_group({1}), world);
}

// --- What groups are called, and who is in them

RANK_TEST(C10d, test_get_uid) {
  NEEDS_RANKS(2);
  EXPECT_EQ(world.group().membership().uid, 0u);
  EXPECT_EQ(world.new_group({0, 1}).membership().uid, 1u);
}

RANK_TEST(C10d, test_set_process_group_desc) {
  NEEDS_RANKS(2);
  EXPECT_EQ(world.group().description(), "default_pg");
  EXPECT_EQ(world.new_group({0, 1}, {.description = "test_purpose"}).description(), "test_purpose");
  EXPECT_EQ(world.new_group({0, 1}).description(), "undefined");
}

RANK_TEST(C10d, test_nncl_rank_membership) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group({1});
  EXPECT_EQ(group.group_rank(1), 0);
  EXPECT_EQ(group.global_rank(0), 1);
  EXPECT_EQ(ranks_of(group), std::vector<int>{1});
  expect_error(ErrorKind::usage, [&] { (void)group.group_rank(0); }, {"not part of group"});
  expect_error(ErrorKind::usage, [&] { (void)group.global_rank(1); }, {"not part of group"});
  group.destroy();
  expect_error(ErrorKind::usage, [&] { (void)group.group_rank(1); }, {"not registered"});
  expect_error(ErrorKind::usage, [&] { (void)group.global_rank(0); }, {"not registered"});
}

// --- Numbers of calls

/// Those of all members.
std::vector<std::uint64_t> sequences(ProcessGroup& group, ProcessGroup& asking) {
  return all_gather_object(asking, group.collective_sequence());
}

RANK_TEST(C10d, test_sequence_num_set_nccl_new_group) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group({0, 1});
  ProcessGroup asking = world.new_group({0, 1});
  if (!group.is_member()) return;
  EXPECT_EQ(sequences(group, asking), std::vector<std::uint64_t>(2, 0));
}

RANK_TEST(C10d, test_sequence_num_incremented_nccl_subgroup) {
  NEEDS_RANKS(4);
  ProcessGroup group = world.new_group({0, 1, 2});
  ProcessGroup asking = world.new_group({0, 1, 2});
  if (!group.is_member()) return;
  std::int32_t t = 1;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    group.all_reduce(view_of(t));
    EXPECT_EQ(sequences(group, asking), std::vector(3, i));
  }
  // One has begun the next; the others lag behind it.
  Work work;
  if (group.rank() == 1) work = group.all_reduce_async(view_of(t));
  EXPECT_EQ(sequences(group, asking), (std::vector<std::uint64_t>{10, 11, 10}));
  if (group.rank() != 1) work = group.all_reduce_async(view_of(t));
  work.wait();
}

Elements filled_with(std::size_t count, float value) { return Elements(count, value); }

// --- What is moved, and never reduced

RANK_TEST(C10d, test_reduce_scatter_base_k_float8_errors) {
  Buffer in(DataType::float8_e4m3fn, 2 * ranks_as_size(world));
  Buffer out(DataType::float8_e4m3fn, 2);
  expect_refused(world.group(), ErrorKind::unsupported, "reduce_scatter",
                 [&] { world.group().reduce_scatter(in, out); },
                 {"float8_e4m3fn values are moved but never reduced"});
}

RANK_TEST(C10d, test_allgather_float8) {
  for (const DataType dtype : {DataType::float8_e4m3fn, DataType::float8_e5m2}) {
    const Buffer in = filled(dtype, 160, world.rank());
    BlockBuffer out(dtype, world.size(), 160);
    world.group().all_gather(in, out.view());
    out.expect_from_all();
  }
}

// --- The collectives

RANK_TEST(C10d, test_reduce_scatter_base_k) {
  std::vector<std::int64_t> in(2 * ranks_as_size(world));
  std::iota(in.begin(), in.end(), 0);
  std::vector<std::int64_t> out(2);
  world.group().reduce_scatter(in, out);
  const int first = 2 * world.rank();
  EXPECT_EQ(out, (std::vector<std::int64_t>{first * world.size(), (first + 1) * world.size()}));
}

RANK_TEST(C10d, test_allgather_base) {
  const Elements ones = filled_with(100, 1);
  Elements out(100 * ranks_as_size(world));
  world.group().all_gather(ones, out);
  EXPECT_EQ(out, filled_with(out.size(), 1));
}

RANK_TEST(C10d, test_all_to_all_single) {
  const Elements ones = filled_with(2 * ranks_as_size(world), 1);
  Elements out(ones.size());
  world.group().all_to_all(ones, out);
  EXPECT_EQ(out, ones);
}

RANK_TEST(C10d, test_collectives) {
  ProcessGroup& group = world.group();
  const auto ranks = static_cast<float>(world.size());
  const Elements ones = filled_with(100, 1);
  Elements reduced = ones;
  group.reduce(reduced, 0);
  if (world.rank() == 0) {
    EXPECT_EQ(reduced, filled_with(100, ranks));
  }
  Elements shared = filled_with(100, static_cast<float>(world.rank()));
  group.broadcast(shared, 0);
  EXPECT_EQ(shared, filled_with(100, 0));
  shared = ones;
  group.all_reduce(shared);
  EXPECT_EQ(shared, filled_with(100, ranks));
  std::vector<Elements> lists(ranks_as_size(world), Elements(100));
  const std::vector<BufferView> outputs(lists.begin(), lists.end());
  group.all_gather(ones, outputs);
  EXPECT_EQ(lists, std::vector<Elements>(lists.size(), ones));
  const std::vector<ConstBufferView> inputs(lists.begin(), lists.end());
  group.reduce_scatter(inputs, shared);
  EXPECT_EQ(shared, filled_with(100, ranks));
  group.scatter(world.rank() == 0 ? inputs : std::vector<ConstBufferView>(), shared, 0);
  EXPECT_EQ(shared, ones);
  std::vector<Elements> swapped(lists.size(), Elements(100));
  const std::vector<BufferView> others(swapped.begin(), swapped.end());
  group.all_to_all(inputs, others);
  EXPECT_EQ(swapped, lists);
  group.barrier();
}

}  // namespace
}  // namespace hymn::test
