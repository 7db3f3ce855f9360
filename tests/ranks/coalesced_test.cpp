// Several calls as one: given as lists, and made inside a scope.
#include <array>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "hymn/coalesce.hpp"
#include "hymn/join.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/flight_records.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

// --- Lists

RANK_TEST(Coalesced, AllReductionsAreRight) {
  ProcessGroup& group = world.group();
  const std::uint64_t before = group.collective_sequence();
  std::vector<float> first(3, static_cast<float>(world.rank()));
  std::vector<float> second(100000, 1.0f);  // too large for a bundle
  std::vector<float> none;
  std::vector<float> third(5, 2.0f);
  const std::array<BufferView, 4> views{first, second, none, third};
  group.all_reduce_coalesced(views);
  const auto sum = static_cast<float>(world.size() * (world.size() - 1) / 2);
  EXPECT_EQ(first, std::vector<float>(3, sum));
  EXPECT_EQ(second, std::vector<float>(100000, static_cast<float>(world.size())));
  EXPECT_EQ(third, std::vector<float>(5, 2.0f * static_cast<float>(world.size())));
  EXPECT_EQ(group.collective_sequence(), before + 1) << "all of them are one operation";
}

RANK_TEST(Coalesced, GathersAndScattersAreRight) {
  ProcessGroup& group = world.group();
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::array<std::int32_t, 2> given{10 + world.rank(), -world.rank()};
  std::array<std::vector<std::int32_t>, 2> all{std::vector<std::int32_t>(ranks),
                                               std::vector<std::int32_t>(ranks)};
  const std::array<ConstBufferView, 2> ins{view_of(given[0]), view_of(given[1])};
  const std::array<BufferView, 2> outs{all[0], all[1]};
  group.all_gather_coalesced(ins, outs);
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(all[0][static_cast<std::size_t>(rank)], 10 + rank);
    EXPECT_EQ(all[1][static_cast<std::size_t>(rank)], -rank);
  }
  std::array<std::int32_t, 2> parts{};
  const std::array<ConstBufferView, 2> wholes{all[0], all[1]};
  const std::array<BufferView, 2> blocks{view_of(parts[0]), view_of(parts[1])};
  group.reduce_scatter_coalesced(wholes, blocks);
  EXPECT_EQ(parts[0], world.size() * (10 + world.rank()));
  EXPECT_EQ(parts[1], -world.size() * world.rank());
}

RANK_TEST(Coalesced, OneWorkStandsForAll) {
  ProcessGroup& group = world.group();
  std::vector<std::int64_t> values(5, 1);
  std::vector<Request> requests;
  for (std::int64_t& value : values)
    requests.push_back(Request::all_reduce(view_of(value), view_of(value)));
  Work work = group.start_coalesced(requests);
  std::int64_t next = 1;
  Work other = group.all_reduce_async(view_of(next));
  other.wait();
  EXPECT_TRUE(work.is_completed()) << "collectives complete in the order in which they start";
  work.wait();
  EXPECT_EQ(work.type(), OpType::all_reduce);
  EXPECT_EQ(work.result().size(), 5u);
  EXPECT_EQ(other.sequence(), work.sequence() + 1);
  EXPECT_EQ(values, std::vector<std::int64_t>(5, world.size()));
  EXPECT_EQ(next, world.size());
}

RANK_TEST(Coalesced, WrongOnesAreRefusedBeforeAnyStarts) {
  ProcessGroup& group = world.group();
  const std::uint64_t before = group.collective_sequence();
  std::array<std::int64_t, 2> values{1, 1};
  std::array<float, 2> numbers{1, 1};
  const Request fine = Request::all_reduce(view_of(values[0]), view_of(values[0]));
  const auto expect_refused_with = [&](const Request& other, Words words) {
    const std::array requests{fine, other};
    expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced(requests); }, words);
  };
  expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced({}); }, {"nothing to coalesce"});
  expect_refused_with(Request::barrier(), {"all_reduce and barrier"});
  expect_refused_with(Request::send(view_of(values[1]), 0), {"of one kind"});
  expect_refused_with(Request::all_reduce(view_of(values[1]), view_of(numbers[1])), {"dtypes"});
  expect_refused_with(
      Request::all_reduce(view_of(numbers[1]), view_of(numbers[1])),
      {"tensors with different dtypes in one coalesced call: int64 and float32", "default_pg"});
  expect_refused_with(Request::all_reduce(view_of(values[1]), view_of(values[1]), ReduceOp::max),
                      {"different reductions", "sum and max"});
  expect_refused_with(Request::all_reduce(values, values), {"#1 and #2 use the same memory"});
  const std::array roots{Request::broadcast(view_of(values[0]), 0),
                         Request::broadcast(view_of(values[1]), world.size() - 1)};
  if (world.size() > 1)
    expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced(roots); },
                 {"different roots"});
  const std::array<ConstBufferView, 1> ins{view_of(values[0])};
  expect_error(ErrorKind::usage, [&] { group.all_gather_coalesced(ins, {}); },
               {"numbers of inputs"});
  EXPECT_EQ(group.collective_sequence(), before);
  group.barrier();
}

/// 60 + i elements of rank + 1 + i in the i-th of five.
std::vector<std::vector<float>> five_lists(const World& world) {
  std::vector<std::vector<float>> lists;
  for (std::size_t i = 0; i < 5; ++i)
    lists.emplace_back(60 + i, static_cast<float>(world.rank() + 1) + static_cast<float>(i));
  return lists;
}

void expect_five_sums(const World& world, const std::vector<std::vector<float>>& lists) {
  const auto ranks = static_cast<float>(world.size());
  for (std::size_t i = 0; i < lists.size(); ++i)
    EXPECT_EQ(lists[i],
              std::vector<float>(60 + i, ranks * (static_cast<float>(i) + (ranks + 1.0f) / 2.0f)));
}

RANK_TEST(Coalesced, test_all_reduce_coalesced_nccl) {
  auto lists = five_lists(world);
  const std::vector<BufferView> views(lists.begin(), lists.end());
  world.group().all_reduce_coalesced(views);
  expect_five_sums(world, lists);
  const Json last = last_of(world);
  EXPECT_EQ(last["profiling_name"], "hymn:all_reduce_coalesced");
  EXPECT_EQ(last["coalesced"], true);
  EXPECT_EQ(last["input_sizes"], Json::array({{60}, {61}, {62}, {63}, {64}}));
  EXPECT_EQ(last["output_sizes"], last["input_sizes"]);
}

RANK_TEST(Coalesced, test_all_reduce_coalesced) {
  std::array<std::vector<double>, 2> lists{std::vector<double>(9, world.rank()),
                                           std::vector<double>(9, 2 * world.rank())};
  const std::array<BufferView, 2> views{lists[0], lists[1]};
  world.group().all_reduce_coalesced(views);
  const double sum = (world.size() - 1) * world.size() / 2.0;
  EXPECT_EQ(lists[0], std::vector<double>(9, sum));
  EXPECT_EQ(lists[1], std::vector<double>(9, 2 * sum));
}

RANK_TEST(Coalesced, test_all_reduce_coalesced_nccl_float8_errors) {
  ProcessGroup& group = world.group();
  std::array<std::vector<float8_e4m3fn>, 2> lists{std::vector<float8_e4m3fn>(60),
                                                  std::vector<float8_e4m3fn>(61)};
  const std::array<BufferView, 2> views{lists[0], lists[1]};
  expect_error(ErrorKind::unsupported, [&] { group.all_reduce_coalesced(views); }, {"float8"});
  std::vector<float8_e4m3fn> gathered(60 * static_cast<std::size_t>(world.size()));
  const std::array<ConstBufferView, 1> ins{lists[0]};
  const std::array<BufferView, 1> outs{gathered};
  group.all_gather_coalesced(ins, outs);  // it moves all the same
}

// --- Scopes

RANK_TEST(Coalesced, test_all_reduce_coalesced_manager_nccl) {
  auto lists = five_lists(world);
  const std::uint64_t before = world.group().collective_sequence();
  Work work = coalesce_async(world.group(), [&] {
    for (auto& list : lists) world.group().all_reduce(list);
  });
  EXPECT_EQ(work.sequence(), before + 1);
  work.wait();
  expect_five_sums(world, lists);
  EXPECT_EQ(world.group().collective_sequence(), before + 1);
}

constexpr std::array<std::int64_t, 2> two_by_two{2, 2};
constexpr std::array<std::int64_t, 1> just_two{2};

// As torch's test does for two ranks; for other numbers as many calls, of flat buffers.
RANK_TEST(Coalesced, test_coalescing_manager_collective) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::vector<float>> outputs(ranks, std::vector<float>(2));
  std::vector<std::vector<float>> inputs(ranks, std::vector<float>(2 * ranks, 1.0f));
  for (const bool timing : {false, true}) {
    if (timing) world.enable_timing();
    coalesce(world.group(), [&] {
      for (std::size_t i = 0; i < ranks; ++i) {
        BufferView output(outputs[i]);
        ConstBufferView input(inputs[i]);
        output.shape = just_two;
        if (ranks == 2) input.shape = two_by_two;
        world.group().reduce_scatter(input, output);
      }
    });
    for (const auto& output : outputs)
      EXPECT_EQ(output, std::vector<float>(2, static_cast<float>(world.size())));
    const Json record = record_of(world);
    EXPECT_EQ(record["entries"].size(), timing ? 2u : 1u);
    const Json& last = record["entries"].back();
    EXPECT_EQ(last["profiling_name"], "hymn:reduce_scatter_tensor_coalesced");
    EXPECT_EQ(last["collective_seq_id"], timing ? 2 : 1);
    EXPECT_EQ(last["state"], "completed");
    EXPECT_EQ(last.contains("duration_ms"), timing);
    const Json shape = ranks == 2 ? Json({2, 2}) : Json::array({2 * ranks});
    EXPECT_EQ(last["input_sizes"], Json(ranks, shape));
    EXPECT_EQ(last["output_sizes"], Json(ranks, Json::array({2})));
  }
}

// Each of as many inputs of ones comes back as the number of ranks.
RANK_TEST(Coalesced, test_reduce_scatter_tensor_coalesced) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::vector<float>> inputs(ranks, std::vector<float>(2 * ranks, 1.0f));
  std::vector<float> outputs(2 * ranks);
  coalesce(world.group(), [&] {
    for (std::size_t i = 0; i < ranks; ++i)
      world.group().reduce_scatter(inputs[i], BufferView(outputs).slice(2 * i, 2));
  });
  EXPECT_EQ(outputs, std::vector<float>(2 * ranks, static_cast<float>(world.size())));
}

RANK_TEST(Coalesced, test_allreduce_coalesced) {
  std::array<std::vector<float>, 3> lists;
  for (auto& list : lists) list.assign(10, 1.0f);
  const std::array<BufferView, 3> views{lists[0], lists[1], lists[2]};
  world.group().all_reduce_coalesced(views);
  for (const auto& list : lists)
    EXPECT_EQ(list, std::vector<float>(10, static_cast<float>(world.size())));
}

RANK_TEST(Coalesced, test_reduce_scatter_tensor_coalesced_float8_errors) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<float8_e5m2> out(4);
  std::vector<float8_e5m2> in(2 * ranks);
  expect_error(ErrorKind::unsupported,
               [&] {
                 coalesce(world.group(), [&] {
                   world.group().reduce_scatter(in, BufferView(out).slice(0, 2));
                   world.group().reduce_scatter(in, BufferView(out).slice(2, 2));
                 });
               },
               {"float8"});
  world.group().barrier();
}

RANK_TEST(Coalesced, ShapesOfAnyNumberOfDimensionsAreRecorded) {
  std::vector<float> large(16, 1.0f);
  std::vector<float> small(6, 1.0f);
  coalesce(world.group(), [&] {
    const std::vector<std::int64_t> four{2, 2, 2, 2};  // gone before the scope ends
    const std::vector<std::int64_t> two{2, 3};
    BufferView view(large);
    view.shape = four;
    world.group().all_reduce(view);
    view = BufferView(small);
    view.shape = two;
    world.group().all_reduce(view);
  });
  EXPECT_EQ(last_of(world)["input_sizes"], Json::array({{2, 2, 2, 2}, {2, 3}}));
  EXPECT_EQ(large[15], static_cast<float>(world.size()));
}

RANK_TEST(Coalesced, AScopeThatThrowsSendsNothing) {
  ProcessGroup& group = world.group();
  std::array<std::int32_t, 2> values{1, 1};
  EXPECT_THROW(coalesce(group,
                        [&] {
                          group.all_reduce(view_of(values[0]));
                          throw std::runtime_error("the body's own");
                        }),
               std::runtime_error);
  const auto barrier_too = [&] {
    group.all_reduce(view_of(values[0]));
    group.barrier();
  };
  expect_error(ErrorKind::usage, [&] { coalesce(group, barrier_too); },
               {"of one kind, or messages, but not all_reduce and barrier"});
  const auto wrong_root = [&] { group.broadcast(view_of(values[0]), world.size()); };
  expect_error(ErrorKind::usage, [&] { coalesce(group, wrong_root); }, {"root"});
  EXPECT_EQ(group.collective_sequence(), 0u);
  EXPECT_EQ(values[0], 1);
  group.all_reduce(view_of(values[0]));
  EXPECT_EQ(values[0], world.size()) << "calls are made again";
  EXPECT_FALSE(coalesce_async(group, [] {}).valid());
  EXPECT_EQ(group.collective_sequence(), 1u);
}

RANK_TEST(Coalesced, WhatCannotBeInAScopeIsRefused) {
  ProcessGroup& group = world.group();
  std::int32_t value = 1;
  CoalescingScope scope(group);
  expect_error(ErrorKind::usage, [&] { CoalescingScope inner(group); }, {"do not nest"});
  const std::array<BufferView, 1> views{view_of(value)};
  expect_error(ErrorKind::usage, [&] { group.all_reduce_coalesced(views); },
               {"inside a coalescing scope"});
  expect_error(ErrorKind::usage, [&] { broadcast_coalesced(group, views, 256, 0); },
               {"inside a coalescing scope"});
  using namespace std::chrono_literals;
  expect_error(ErrorKind::usage, [&] { group.all_reduce(view_of(value), {}, {.timeout = 1s}); },
               {"no limit and no stream of its own"});
  Work inside = group.all_reduce_async(view_of(value));
  EXPECT_FALSE(inside.valid());
  float number = 1;
  expect_error(ErrorKind::usage, [&] { group.all_reduce(view_of(number)); },
               {"different dtypes", "int32 and float32", "default_pg"});
  expect_error(ErrorKind::usage, [&] { group.all_reduce(view_of(value), ReduceOp::max); },
               {"different reductions"});
  // Their own calls would be kept with memory that is gone by then.
  expect_error(ErrorKind::usage, [&] { (void)Join::count_active(group); },
               {"inside a coalescing scope"});
  expect_error(ErrorKind::usage, [&] { (void)group.split(0, 0); }, {"inside a coalescing scope"});
  expect_error(ErrorKind::usage, [&] { (void)group.all_reduced(value); },
               {"all_reduced", "inside a coalescing scope"});
  expect_error(ErrorKind::usage, [&] { inside.wait(); }, {"inside a coalescing scope"});
  Work work = scope.start();
  work.wait();
  EXPECT_EQ(value, world.size());
  expect_error(ErrorKind::usage, [&] { (void)scope.start(); }, {"has ended"});
}

RANK_TEST(Coalesced, ScopesOfDifferentGroupsNest) {
  ProcessGroup other = fresh_group(world);
  std::array<std::int32_t, 2> values{1, 2};
  coalesce(world.group(), [&] {
    world.group().all_reduce(view_of(values[0]));
    coalesce(other, [&] { other.all_reduce(view_of(values[1])); });
    EXPECT_EQ(values[1], 2 * world.size()) << "the inner one has ended";
    EXPECT_EQ(values[0], 1);
  });
  EXPECT_EQ(values[0], world.size());
}

RANK_TEST(Coalesced, MessagesInAScopeAreABatch) {
  NEEDS_RANKS(2);
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  const std::int32_t mine = world.rank();
  std::int32_t got = -1;
  Work work = coalesce_async(world.group(), [&] {
    world.group().send(view_of(mine), next);
    world.group().recv(view_of(got), before);
  });
  EXPECT_EQ(work.type(), OpType::batch);
  work.wait();
  EXPECT_EQ(got, before);
  EXPECT_EQ(work.status().source, before);
}

RANK_TEST(Coalesced, HooksAreCalledOnce) {
  ProcessGroup group = fresh_group(world);
  std::mutex mutex;
  std::vector<CompletionInfo> told;
  group.on_completion([&](const CompletionInfo& info) {
    const std::lock_guard lock(mutex);
    told.push_back(info);
  });
  std::array<std::int32_t, 3> values{};
  coalesce(group, [&] {
    for (std::int32_t& value : values) group.broadcast(view_of(value), 0);
  });
  group.wait_for_pending_works();
  const std::lock_guard lock(mutex);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].name, "hymn:broadcast_coalesced");
  EXPECT_EQ(told[0].bytes, sizeof(values));
  EXPECT_EQ(told[0].sequence, 1u);
}

RANK_TEST(Coalesced, OtherThreadsAndOthersOfTheGroupAreNotCaptured) {
  if (!any_thread_may_call()) return;
  ProcessGroup other = fresh_group(world);
  std::int32_t apart = 1;
  std::int32_t inside = 1;
  coalesce(world.group(), [&] {
    world.group().all_reduce(view_of(inside));
    other.all_reduce(view_of(apart));
    EXPECT_EQ(apart, world.size());
  });
  EXPECT_EQ(inside, world.size());
}

// A later thread has the id of one that has ended, but not its scope.
RANK_TEST(Coalesced, AScopeThatItsThreadHasLeftOpenCatchesNobodyElsesCalls) {
  if (!any_thread_may_call()) return;
  std::unique_ptr<CoalescingScope> left_open;
  std::thread([&] { left_open = std::make_unique<CoalescingScope>(world.group()); }).join();
  std::int32_t value = 1;
  std::thread([&] { world.group().all_reduce(view_of(value)); }).join();
  EXPECT_EQ(value, world.size());
  left_open.reset();
}

// --- At level detail

TEST(Coalesced, ChecksTellWhichBufferDiffers) {
  on_ranks(
      [](World& world) {
        NEEDS_RANKS(2);
        std::vector<float> values(8, 1.0f);
        const bool is_last = world.rank() == world.size() - 1;
        const auto split = [&](std::size_t first) {
          coalesce(world.group(), [&] {
            world.group().all_reduce(BufferView(values).slice(0, first));
            world.group().all_reduce(BufferView(values).slice(first, 8 - first));
          });
        };
        expect_error(ErrorKind::usage, [&] { split(is_last ? 3 : 5); },
                     {"ranks make different calls", "2 buffers coalesced",
                      "buffer 1 of those coalesced has 5 elements on rank 0 and 3 on rank"});
        expect_error(ErrorKind::usage,
                     [&] {
                       if (is_last) return world.group().all_reduce(values);
                       split(4);
                     },
                     {"ranks make different calls", "2 buffers coalesced"});
        split(4);
        EXPECT_EQ(values[7], static_cast<float>(world.size()));
      },
      {.checks = CheckLevel::detail});
}

TEST(Coalesced, BarriersAreNotSingleOnes) {
  on_ranks(
      [](World& world) {
        NEEDS_RANKS(2);
        const auto two = [&] {
          coalesce(world.group(), [&] {
            world.group().barrier();
            world.group().barrier();
          });
        };
        expect_error(ErrorKind::usage,
                     [&] {
                       if (world.rank() == 0) return world.group().barrier();
                       two();
                     },
                     {"ranks make different calls", "barrier, 2 coalesced"});
        two();
      },
      {.checks = CheckLevel::detail});
}

// --- broadcast_coalesced

template <class T>
void add_chunks(std::vector<std::vector<std::byte>>& chunks, std::vector<BufferView>& views) {
  constexpr std::size_t parts = 5;
  for (std::size_t part = 0; part < parts; ++part) {
    auto& chunk = chunks.emplace_back(12 * sizeof(T));
    views.emplace_back(chunk.data(), 12, data_type_of<T>);
    for (std::size_t i = 0; i < chunk.size(); ++i)
      chunk[i] = static_cast<std::byte>(chunks.size() * 31 + i);
  }
}

RANK_TEST(Coalesced, test_broadcast_coalesced_nccl) {
  for (int root = 0; root < std::min(world.size(), 2); ++root) {
    std::vector<std::vector<std::byte>> chunks;
    std::vector<BufferView> views;
    add_chunks<float16>(chunks, views);
    add_chunks<float>(chunks, views);
    add_chunks<double>(chunks, views);
    add_chunks<float16>(chunks, views);
    const auto wanted = chunks;
    if (world.rank() != root)
      for (auto& chunk : chunks) std::fill(chunk.begin(), chunk.end(), std::byte{0});
    const std::uint64_t before = world.group().collective_sequence();
    broadcast_coalesced(world.group(), views, 256, root);
    EXPECT_EQ(chunks, wanted);
    EXPECT_EQ(world.group().collective_sequence(), before + 1);
  }
}

}  // namespace
}  // namespace hymn::test
