// Groups: who is in them, what they are called, how ranks are translated, and what they carry.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

std::vector<int> ranks_from(int first, int past, int step = 1) {
  std::vector<int> ranks;
  for (int rank = first; rank < past; rank += step) ranks.push_back(rank);
  return ranks;
}

/// The sum over the members of 100 + their global rank.
void expect_sum_over_members(ProcessGroup& group, int rank) {
  std::int64_t sum = 100 + rank;
  group.all_reduce(view_of(sum));
  std::int64_t expected = 0;
  for (const int member : ranks_of(group)) expected += 100 + member;
  EXPECT_EQ(sum, expected);
}

RANK_TEST(Group, WorldKnowsItself) {
  ProcessGroup& group = world.group();
  EXPECT_TRUE(group.valid());
  EXPECT_TRUE(group.is_member());
  EXPECT_EQ(group.rank(), world.rank());
  EXPECT_EQ(group.size(), world.size());
  EXPECT_EQ(group.description(), "default_pg");
  EXPECT_EQ(ranks_of(group), ranks_from(0, world.size()));
  EXPECT_EQ(group.membership().uid, 0u);
  EXPECT_EQ(world.host_count(), 1);
  EXPECT_EQ(world.local_rank(), world.rank());
  EXPECT_EQ(world.local_size(), world.size());
}

RANK_TEST(Group, EvenAndOddRanks) {
  ProcessGroup even = world.new_group(ranks_from(0, world.size(), 2));
  ProcessGroup odd;
  if (world.size() > 1) odd = world.new_group(ranks_from(1, world.size(), 2));
  ProcessGroup& mine = world.rank() % 2 == 0 ? even : odd;
  EXPECT_TRUE(mine.is_member());
  EXPECT_EQ(mine.rank(), world.rank() / 2);
  EXPECT_EQ(mine.description(), "undefined");
  for (int i = 0; i < 3; ++i) expect_sum_over_members(mine, world.rank());
  expect_sum_over_members(world.group(), world.rank());
}

RANK_TEST(Group, test_subpg) {
  NEEDS_RANKS(4);
  ProcessGroup low = world.new_group({0, 1});
  ProcessGroup high = world.new_group({2, 3});
  if (world.rank() > 3) return;
  std::vector<float> ones(9, static_cast<float>(world.rank()));
  (world.rank() < 2 ? low : high).all_reduce(ones);
  EXPECT_EQ(ones, std::vector(9, world.rank() < 2 ? 1.0f : 5.0f));
}

RANK_TEST(Group, Overlapping) {
  NEEDS_RANKS(3);
  ProcessGroup front = world.new_group(ranks_from(0, world.size() - 1));
  ProcessGroup back = world.new_group(ranks_from(1, world.size()));
  for (int i = 0; i < 3; ++i) {
    if (front.is_member()) expect_sum_over_members(front, world.rank());
    if (back.is_member()) expect_sum_over_members(back, world.rank());
  }
}

RANK_TEST(Group, ListsAreSorted) {
  std::vector<int> ranks = ranks_from(0, world.size());
  std::reverse(ranks.begin(), ranks.end());
  ProcessGroup group = world.new_group(ranks);
  EXPECT_EQ(ranks_of(group), ranks_from(0, world.size()));
  EXPECT_EQ(group.rank(), world.rank());
  // Different orders are the same list.
  if (world.rank() == 0) std::reverse(ranks.begin(), ranks.end());
  ProcessGroup again = world.new_group(ranks);
  expect_sum_over_members(again, world.rank());
}

RANK_TEST(Group, SameRanksTwiceAreIndependent) {
  const std::vector<int> all = ranks_from(0, world.size());
  ProcessGroup a = world.new_group(all);
  ProcessGroup b = world.new_group(all);
  EXPECT_NE(a.membership().uid, b.membership().uid);
  // Started in one order on rank 0 and in the other elsewhere: they must not match each other.
  std::int32_t in_a = 1;
  std::int32_t in_b = 1000;
  const bool a_first = world.rank() == 0;
  Work first = (a_first ? a : b).all_reduce_async(view_of(a_first ? in_a : in_b));
  Work second = (a_first ? b : a).all_reduce_async(view_of(a_first ? in_b : in_a));
  second.wait();
  first.wait();
  EXPECT_EQ(in_a, world.size());
  EXPECT_EQ(in_b, 1000 * world.size());
  a.destroy();
  expect_sum_over_members(b, world.rank());
}

RANK_TEST(Group, UidsCountUpTheSameEverywhere) {
  for (std::uint64_t uid = 1; uid <= 4; ++uid) {
    ProcessGroup group = world.new_group({static_cast<int>(uid) % world.size()});
    EXPECT_EQ(group.membership().uid, uid);
    EXPECT_EQ(group.membership().parent, 0u);
  }
}

RANK_TEST(Group, Singletons) {
  for (int only = 0; only < world.size(); ++only) {
    ProcessGroup group = world.new_group({only});
    EXPECT_EQ(group.is_member(), world.rank() == only);
    if (!group.is_member()) continue;
    EXPECT_EQ(group.size(), 1);
    expect_sum_over_members(group, world.rank());
    const Buffer in = filled(DataType::float32, 5, only);
    Buffer out(DataType::float32, 5);
    group.all_gather(in, out);
    group.broadcast(out, only);
    group.barrier();
    expect_filled(out, only);
  }
}

RANK_TEST(Group, NonMembersReturnAndTouchNothing) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group({0}, {.description = "leaders"});
  EXPECT_EQ(group.description(), "leaders");
  EXPECT_EQ(group.size(), 1);
  if (world.rank() == 0) return;
  EXPECT_TRUE(group.valid());
  EXPECT_FALSE(group.is_member());
  EXPECT_EQ(group.rank(), -1);
  Buffer in(DataType::float32, 4);
  Buffer out(DataType::float32, 4);
  group.all_reduce(in, out);
  group.broadcast(out, 0);
  group.all_gather(in, out);
  group.barrier();
  EXPECT_EQ(group.recv(out, 0).count, 0u);
  Work work = group.all_reduce_async(in, out);
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.test());
  EXPECT_EQ(work.error(), nullptr);
  work.wait();
  group.batch_isend_irecv(std::array{P2POp::send(in, 0)}).wait();
  expect_untouched(in);
  expect_untouched(out);
  EXPECT_EQ(group.collective_sequence(), 0u);
  group.destroy();
}

/// Without rank 0, so that global and group ranks differ.
ProcessGroup all_but_the_first(World& world) {
  return world.new_group(ranks_from(1, world.size()));
}

RANK_TEST(Group, RootsOfASubgroupAreGlobalRanks) {
  NEEDS_RANKS(3);
  ProcessGroup group = all_but_the_first(world);
  if (!group.is_member()) return;
  for (int root = 1; root < world.size(); ++root) {
    const bool here = world.rank() == root;
    Buffer shared(DataType::int32, 9);
    if (here) fill(shared, root);
    group.broadcast(shared, root);
    expect_filled(shared, root);

    std::int64_t sum = world.rank();
    group.reduce(view_of(sum), root);
    EXPECT_EQ(sum, here ? world.size() * (world.size() - 1) / 2 : sum);

    const Buffer mine = filled(DataType::float16, 3, group.rank());
    BlockBuffer all(DataType::float16, group.size(), 3);
    group.gather(mine, here ? all.view() : BufferView(), root);
    if (here) all.expect_from_all();

    all.fill_for_each(root);
    Buffer part(DataType::float16, 3);
    group.scatter(here ? all.view() : BufferView(), part, root);
    expect_filled(part, root, group.rank());
  }
}

RANK_TEST(Group, RootlessCollectivesOnASubgroup) {
  NEEDS_RANKS(3);
  ProcessGroup group = all_but_the_first(world);
  if (!group.is_member()) return;
  const Buffer mine = filled(DataType::uint32, 5, group.rank());
  BlockBuffer all(DataType::uint32, group.size(), 5);
  group.all_gather(mine, all.view());
  all.expect_from_all();

  BlockBuffer out(DataType::uint32, group.size(), 5);
  all.fill_for_each(group.rank());
  group.all_to_all(all.view(), out.view());
  out.expect_from_all(group.rank());

  const auto members = as_size(group.size());
  const Buffer in = reduction_input(DataType::int8, ReduceKind::avg, world.rank(), 5 * members);
  Buffer block(DataType::int8, 5);
  group.reduce_scatter(in, block, ReduceOp::avg);
  expect_equal(reduction_result(DataType::int8, ReduceKind::avg, ranks_of(group), 5,
                                5 * as_size(group.rank())),
               block);
  group.barrier();
}

/// Each collective, on whoever is not in the group, and by what name it is told of.
std::vector<std::string> call_all(ProcessGroup& group) {
  std::vector<std::string> names;
  float in = 1;
  float out = 9;
  const ConstBufferView give = view_of(in);
  const BufferView take = view_of(out);
  const std::array<BufferView, 1> takes{take};
  for (const OpType type : all_op_types)
    if (is_collective(type)) names.emplace_back(to_string(type));
  group.all_reduce(give, take);
  group.broadcast(take, 0);
  group.reduce(give, take, 0);
  group.gather(give, take, 0);
  group.scatter(give, take, 0);
  group.all_gather(give, take);
  group.reduce_scatter(give, take);
  group.scan(give, take);
  group.exscan(give, take);
  group.all_to_all(give, take);
  group.barrier();
  group.all_reduce_coalesced(takes);
  group.all_gather_async(give, takes).wait();
  EXPECT_EQ(out, 9.0f) << "nothing is done";
  EXPECT_EQ(group.collective_sequence(), 0u);
  return names;
}

void expect_warnings(CheckLevel checks) {
  std::mutex mutex;
  std::map<int, std::vector<std::string>> outside;
  ::testing::internal::CaptureStderr();
  on_ranks(
      [&](World& world) {
        ProcessGroup group = world.new_group({0}, {.description = "leaders"});
        if (group.is_member()) return;
        std::vector<std::string> names = call_all(group);
        std::lock_guard lock(mutex);
        outside[world.rank()] = std::move(names);
      },
      {.checks = checks});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("leaders") == std::string::npos, outside.empty()) << text;
  for (const auto& [rank, names] : outside)
    for (const std::string& name : names) {
      const std::string me = std::to_string(rank);
      EXPECT_NE(text.find("hymn[" + me + "] warning: " + name + " on group 'leaders"),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("is ignored: rank " + me + " is not a member"), std::string::npos)
          << text;
    }
}

TEST(Group, test_nccl_warn_not_in_group_debug_off) { expect_warnings(CheckLevel::off); }
TEST(Group, test_nccl_warn_not_in_group_debug_info) { expect_warnings(CheckLevel::info); }
TEST(Group, test_nccl_warn_not_in_group_debug_detail) { expect_warnings(CheckLevel::detail); }

RANK_TEST(Group, RootOutsideIsRefused) {
  NEEDS_RANKS(3);
  ProcessGroup group = all_but_the_first(world);
  if (!group.is_member()) return;
  Buffer buffer(DataType::int32, 4);
  expect_refused(group, ErrorKind::usage, "broadcast", [&] { group.broadcast(buffer, 0); },
                 {"not part of group"});
  expect_refused(group, ErrorKind::usage, "reduce", [&] { group.reduce(buffer, 0); },
                 {"not part of group"});
  expect_refused(group, ErrorKind::usage, "gather", [&] { group.gather(buffer, BufferView(), 0); },
                 {"not part of group"});
  expect_refused(group, ErrorKind::usage, "scatter",
                 [&] { group.scatter(ConstBufferView(), buffer, 0); }, {"not part of group"});
}

RANK_TEST(Group, RanksAreTranslatedBothWays) {
  NEEDS_RANKS(3);
  ProcessGroup group = world.new_group({world.size() - 1, 0});
  EXPECT_EQ(group.global_rank(0), 0);
  EXPECT_EQ(group.global_rank(1), world.size() - 1);
  EXPECT_EQ(group.group_rank(0), 0);
  EXPECT_EQ(group.group_rank(world.size() - 1), 1);
  for (const int outside : {1, -1, world.size()})
    expect_error(ErrorKind::usage, [&] { group.group_rank(outside); }, {"not part of group"});
  for (const int outside : {2, -1})
    expect_error(ErrorKind::usage, [&] { group.global_rank(outside); }, {"not part of group"});
}

RANK_TEST(Group, ManyAtOnce) {
  std::vector<ProcessGroup> groups;
  for (int i = 0; i < 20; ++i) groups.push_back(world.new_group(ranks_from(0, world.size())));
  for (ProcessGroup& group : groups) expect_sum_over_members(group, world.rank());
}

RANK_TEST(Group, test_using_pg_from_another_thread) {
  if (!any_thread_may_call()) GTEST_SKIP() << "MPI did not grant MPI_THREAD_MULTIPLE";
  std::vector<float> values(64, static_cast<float>(world.rank()));
  std::thread([&] { world.group().all_reduce(values); }).join();
  EXPECT_EQ(values, std::vector(64, static_cast<float>(world.size() * (world.size() - 1) / 2)));
  // Two groups at the same time, each by a thread of its own.
  ProcessGroup other = world.new_group(ranks_from(0, world.size()));
  std::thread helper([&] {
    for (int i = 0; i < 20; ++i) expect_sum_over_members(other, world.rank());
  });
  for (int i = 0; i < 20; ++i) expect_sum_over_members(world.group(), world.rank());
  helper.join();
}

RANK_TEST(Group, PathCanBeChosen) {
  const std::vector<int> all = ranks_from(0, world.size());
  std::vector<std::int32_t> values(100, 1);
  const Request request = Request::all_reduce(values, values);
  const std::string usual = world.group().explain(request).path;
  if (const char* asked = std::getenv("HYMN_PATH"); asked != nullptr && *asked != 0) {
    EXPECT_EQ(usual, asked);
  }
  ProcessGroup same = world.new_group(all, {.path = usual});
  ProcessGroup other = world.new_group(all, {.path = "^" + usual});
  EXPECT_EQ(same.explain(request).path, usual);
  EXPECT_NE(other.explain(request).path, usual);
  same.all_reduce(values);
  other.all_reduce(values);
  EXPECT_EQ(values[99], world.size() * world.size());
  expect_error(ErrorKind::config, [&] { world.new_group(all, {.path = "carrier_pigeon"}); },
               {"carrier_pigeon"});
  world.group().barrier();
}

RANK_TEST(Group, EmptyHandleIsNoGroup) {
  ProcessGroup none;
  EXPECT_FALSE(none.valid());
  expect_error(ErrorKind::usage, [&] { none.barrier(); });
  expect_error(ErrorKind::usage, [&] { (void)none.barrier_async(); });
  expect_error(ErrorKind::usage, [&] { none.size(); });
}

}  // namespace
}  // namespace hymn::test
