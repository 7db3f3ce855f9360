// What ranks that have run out give where they cannot give what changes nothing: roots that others
// stand in for, numbers that are declared, and averages of those that are left.
#include <algorithm>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

/// Rank 0 has none, and runs out first; of others as many as any have three.
int up_to_three_inputs_of(int rank) { return rank % 4; }

bool has_input(int rank, int iteration) { return up_to_three_inputs_of(rank) > iteration; }

int count_active(const ProcessGroup& group, int iteration) {
  return static_cast<int>(
      std::ranges::count_if(ranks_of(group), [&](int rank) { return has_input(rank, iteration); }));
}

/// The first from `preferred` on that is active.
int expected_root(const World& world, int preferred, int iteration) {
  for (int step = 0; step < world.size(); ++step) {
    const int rank = (preferred + step) % world.size();
    if (has_input(rank, iteration)) return rank;
  }
  return -1;
}

void for_each_input(const World& world, const std::function<void(int iteration)>& use) {
  for (int iteration = 0; iteration < up_to_three_inputs_of(world.rank()); ++iteration)
    use(iteration);
}

RANK_TEST(Shadow, RootsAreStoodInFor) {
  ProcessGroup group = world.group();
  Join::shadow_all({group}, [&] {
    for_each_input(world, [&](int iteration) {
      for (const int preferred : {0, world.size() - 1}) {
        const int root = Join::acting_root(group, preferred);
        EXPECT_EQ(root, expected_root(world, preferred, iteration));
        Buffer mine = filled(DataType::int32, 5, world.rank(), iteration);
        group.broadcast(mine, root);
        expect_filled(mine, root, iteration);
      }
    });
  });
}

RANK_TEST(Shadow, AveragesOfThoseThatAreLeft) {
  ProcessGroup group = world.group();
  Join::shadow_all({group}, [&] {
    for_each_input(world, [&](int iteration) {
      const int active = count_active(group, iteration);
      EXPECT_EQ(Join::count_active(group), active);
      // A whole number of 64ths, so that no sum is rounded.
      double value = 64;
      group.all_reduce(view_of(value), Join::average(group));
      EXPECT_DOUBLE_EQ(value, 64);
    });
  });
}

RANK_TEST(Shadow, OutsideOfAJoinAllAreActive) {
  EXPECT_EQ(Join::count_active(world.group()), world.size());
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(Join::acting_root(world.group(), rank), rank);
  EXPECT_EQ(Join::average(world.group()).kind(), ReduceKind::avg);
  expect_error(ErrorKind::usage, [&] { Join::acting_root(world.group(), world.size()); },
               {"is not part of group"});
  expect_world_works(world);
}

/// The elements of `all` that those give that have run out are this number.
template <class Value>
void expect_fill(const ProcessGroup& group, const std::vector<Value>& all, int iteration,
                 Value fill) {
  for (int member = 0; member < group.size(); ++member) {
    const int rank = group.global_rank(member);
    EXPECT_EQ(all[as_size(member)], has_input(rank, iteration) ? static_cast<Value>(rank) : fill)
        << "rank " << rank;
  }
}

RANK_TEST(Shadow, GivesADeclaredNumber) {
  ProcessGroup group = world.group();
  const auto body = [&](int iteration) {
    const auto mine = static_cast<std::int32_t>(world.rank());
    std::vector<std::int32_t> all(ranks_as_size(world));
    group.all_gather(view_of(mine), all);
    expect_fill(group, all, iteration, -3);
    const int root = expected_root(world, 3 % world.size(), iteration);
    group.gather(view_of(mine), world.rank() == root ? BufferView(all) : BufferView(), root);
    if (world.rank() == root) expect_fill(group, all, iteration, -3);
    const std::vector<float> given(ranks_as_size(world), static_cast<float>(world.rank()));
    std::vector<float> taken(ranks_as_size(world));
    group.all_to_all(given, taken);
    expect_fill(group, taken, iteration, -3.0F);
    // What is reduced is as ever.
    std::int32_t sum = 1;
    group.all_reduce(view_of(sum));
    EXPECT_EQ(sum, count_active(group, iteration));
  };
  Join::shadow_all({group}, [&] { for_each_input(world, body); }, {.fill = -3});
}

RANK_TEST(Shadow, ARootGivesADeclaredNumber) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.group();
  const auto body = [&](int) {
    std::vector<std::int64_t> values(3, 1);
    group.broadcast(values, 0);
    EXPECT_EQ(values, std::vector<std::int64_t>(3, 7));
    float part = 0;
    group.scatter(ConstBufferView(), view_of(part), 0);
    EXPECT_EQ(part, 7.0F);
  };
  Join::shadow_all({group}, [&] { for_each_input(world, body); }, {.root_fill = 7});
}

}  // namespace
}  // namespace hymn::test
