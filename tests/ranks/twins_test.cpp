// The asynchronous twins of calls over lists and given counts, and barriers with ids of GPUs.
#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using Ints = std::vector<std::int32_t>;
using Counts = std::vector<std::size_t>;

/// Group rank i has i + 1 elements.
Counts uneven(const World& world) {
  Counts counts(ranks_as_size(world));
  std::iota(counts.begin(), counts.end(), std::size_t{1});
  return counts;
}

/// A list of the blocks of `data`; what it is called with may change or end once a call has begun.
template <class View>
std::vector<View> split(Ints& data, const Counts& counts) {
  std::vector<View> views;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    views.push_back(BufferView(data).slice(at, count));
    at += count;
  }
  return views;
}

std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// i + 1 times 10 * i, for each rank i.
Ints everybodys(const Counts& counts) {
  Ints values;
  for (std::size_t i = 0; i < counts.size(); ++i)
    values.insert(values.end(), counts[i], static_cast<std::int32_t>(10 * i));
  return values;
}

/// Waits when what was given has changed.
void finish(Work work, Counts& counts) {
  counts.assign(counts.size(), 99);
  work.wait();
}

RANK_TEST(Twins, OfGathers) {
  ProcessGroup& group = world.group();
  const int root = world.size() - 1;
  const Counts counts = uneven(world);
  const auto me = static_cast<std::size_t>(world.rank());
  const Ints own(counts[me], static_cast<std::int32_t>(10 * me));
  const bool is_root = world.rank() == root;
  for (const bool as_list : {false, true}) {
    Counts given = counts;
    Ints all(sum(counts), -1);
    Work work;
    if (as_list) {
      auto views = split<BufferView>(all, counts);
      if (!is_root) views.clear();
      work = group.gather_async(own, views, root);
    } else {
      work = group.gather_async(own, is_root ? BufferView(all) : BufferView(), given, root);
    }
    finish(std::move(work), given);
    EXPECT_EQ(all, is_root ? everybodys(counts) : Ints(sum(counts), -1));

    given = counts;
    all.assign(all.size(), -1);
    if (as_list)
      work = group.all_gather_async(own, split<BufferView>(all, counts));
    else
      work = group.all_gather_async(own, all, given);
    finish(std::move(work), given);
    EXPECT_EQ(all, everybodys(counts));
  }
}

RANK_TEST(Twins, OfScatters) {
  ProcessGroup& group = world.group();
  const int root = world.size() - 1;
  const Counts counts = uneven(world);
  const auto me = static_cast<std::size_t>(world.rank());
  const bool is_root = world.rank() == root;
  const auto ranks = static_cast<std::int32_t>(world.size());
  Ints all = everybodys(counts);
  for (const bool as_list : {false, true}) {
    Counts given = counts;
    Ints own(counts[me], -1);
    Work work;
    if (as_list) {
      auto views = split<ConstBufferView>(all, counts);
      if (!is_root) views.clear();
      work = group.scatter_async(views, own, root);
    } else {
      work =
          group.scatter_async(is_root ? ConstBufferView(all) : ConstBufferView(), given, own, root);
    }
    finish(std::move(work), given);
    EXPECT_EQ(own, Ints(counts[me], world.rank() * 10));

    given = counts;
    if (as_list)
      work = group.reduce_scatter_async(split<ConstBufferView>(all, counts), own);
    else
      work = group.reduce_scatter_async(all, given, own);
    finish(std::move(work), given);
    EXPECT_EQ(own, Ints(counts[me], ranks * 10 * world.rank()));
  }
}

RANK_TEST(Twins, OfAllToAll) {
  ProcessGroup& group = world.group();
  const auto me = static_cast<std::size_t>(world.rank());
  const Counts gives = uneven(world);
  const Counts takes(gives.size(), me + 1);
  Ints in(sum(gives), world.rank());
  Ints expected;
  for (std::size_t i = 0; i < takes.size(); ++i)
    expected.insert(expected.end(), me + 1, static_cast<std::int32_t>(i));
  for (const bool as_list : {false, true}) {
    Counts given = gives;
    Ints out(sum(takes), -1);
    Work work;
    if (as_list)
      work =
          group.all_to_all_async(split<ConstBufferView>(in, gives), split<BufferView>(out, takes));
    else
      work = group.all_to_all_async(in, given, out, takes);
    finish(std::move(work), given);
    EXPECT_EQ(out, expected);
  }
}

RANK_TEST(Twins, OfAReduceInPlace) {
  std::int32_t value = world.rank();
  world.group().reduce_async(view_of(value), 0).wait();
  const int sum = world.size() * (world.size() - 1) / 2;
  EXPECT_EQ(value, world.rank() == 0 ? sum : world.rank());
}

RANK_TEST(BarrierOnDevices, test_nccl_barrier_device_ids_function_argument) {
  ProcessGroup& group = world.group();
  expect_refused(group, ErrorKind::usage, "barrier", [&] { group.barrier(0); },
                 {"Invalid function argument", "list", "give {0}"});
  expect_refused(group, ErrorKind::usage, "barrier", [&] { group.barrier_async(3); },
                 {"Invalid function argument"});
}

// Also where a limit of none lets a barrier be MPI's blocking one, which nothing else meets.
RANK_TEST(BarrierOnDevices, AnEmptyListIsABarrierAsAnyOther) {
  const std::string path = ranks_are_threads() ? "" : "mpi";
  ProcessGroup group = fresh_group(world, {.timeout = Timeout::none(), .path = path});
  if (world.rank() % 2 == 0)
    group.barrier();
  else
    group.barrier(std::span<const int>());
  EXPECT_EQ(group.collective_sequence(), 1u);
}

RANK_TEST(BarrierOnDevices, WantsAGroupOnGpus) {
  ProcessGroup& group = world.group();
  const std::vector<int> none;
  const std::uint64_t before = group.collective_sequence();
  group.barrier(none);
  group.barrier_async(none).wait();
  group.barrier({});
  EXPECT_EQ(group.collective_sequence(), before + 3);
  if (world.gpu() >= 0) return;
  expect_refused(group, ErrorKind::unsupported, "barrier", [&] { group.barrier({0}); },
                 {"works on no GPU", "leave the device ids out"});
}

}  // namespace
}  // namespace hymn::test
