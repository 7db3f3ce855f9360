// Functional collectives on elements.
#include "hymn/capture.hpp"
#include "hymn/threads.hpp"
#include "tests/functional/arrays.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

// --- As torch.distributed has them.

RANK_TEST(TraceableCollectives, test_broadcast) {
  const Array mine = Array::full<float>({4}, world.rank() == 0 ? 1 : 0);
  expect_all<float>(fc::broadcast(mine, 0, one_row(world)), {4}, 1);
  expect_all<float>(mine, {4}, world.rank() == 0 ? 1 : 0);
}

RANK_TEST(TraceableCollectives, test_all_reduce_eager) {
  const Array mine = ones({4});
  expect_all<float>(fc::all_reduce(mine, "sum", one_row(world)), {4},
                    static_cast<float>(world.size()));
  expect_all<float>(mine, {4}, 1);
  if (world.size() % 2 != 0) return;
  const Mesh mesh = two_columns(world);
  expect_all<float>(fc::all_reduce(mine, "sum", {mesh, 1}), {4}, 2);
  expect_all<float>(fc::all_reduce(mine, "sum", {mesh, "dp"}), {4},
                    static_cast<float>(world.size() / 2));
}

RANK_TEST(TraceableCollectives, test_all_reduce_coalesced_eager) {
  const std::vector<Array> mine{ones({4}), Array::full<float>({6}, 3)};
  const std::vector<Array> sums = fc::all_reduce_coalesced(mine, "sum", one_row(world));
  ASSERT_EQ(sums.size(), 2u);
  expect_all<float>(sums[0], {4}, static_cast<float>(world.size()));
  expect_all<float>(sums[1], {6}, static_cast<float>(3 * world.size()));
}

RANK_TEST(TraceableCollectives, test_all_gather_tensor) {
  std::vector<Mesh> meshes{one_row(world)};
  if (world.size() % 2 == 0) meshes.push_back(two_columns(world));
  for (const Mesh& mesh : meshes)
    for (const std::size_t dimension : {0u, 1u, 2u}) {
      Shape shape{3, 3, 3};
      shape[dimension] *= static_cast<std::int64_t>(mesh.shape()[0]);
      expect_all<float>(
          fc::all_gather_tensor(ones({3, 3, 3}), static_cast<int>(dimension), {mesh, 0}), shape, 1);
    }
}

void expect_gathered_coalesced(World& world) {
  const std::vector<Array> mine{ones({4}), Array::full<float>({4}, 2)};
  const std::vector<Array> all = fc::all_gather_into_tensor_coalesced(mine, one_row(world));
  ASSERT_EQ(all.size(), 2u);
  expect_all<float>(all[0], {4 * world.size()}, 1);
  expect_all<float>(all[1], {4 * world.size()}, 2);
}

RANK_TEST(TraceableCollectives, test_all_gather_into_tensor_coalesced) {
  expect_gathered_coalesced(world);
}

RANK_TEST(TraceableCollectives, test_reduce_scatter_tensor) {
  std::vector<Mesh> meshes{one_row(world)};
  if (world.size() % 2 == 0) meshes.push_back(two_columns(world));
  for (const Mesh& mesh : meshes)
    for (const std::size_t dimension : {0u, 1u}) {
      const auto ranks = static_cast<std::int64_t>(mesh.shape()[0]);
      Shape shape{3, 3};
      shape[dimension] *= ranks;
      expect_all<float>(
          fc::reduce_scatter_tensor(ones(shape), "sum", static_cast<int>(dimension), {mesh, 0}),
          {3, 3}, static_cast<float>(ranks));
    }
}

RANK_TEST(TraceableCollectives, test_reduce_scatter_into_tensor_coalesced) {
  const std::int64_t ranks = world.size();
  const std::vector<Array> mine{Array::full<std::int64_t>({ranks}, 1),
                                Array::full<std::int64_t>({ranks}, 2)};
  const std::vector<Array> parts = fc::reduce_scatter_tensor_coalesced(
      mine, "sum", std::vector<std::int64_t>{0, 0}, one_row(world));
  ASSERT_EQ(parts.size(), 2u);
  expect_all<std::int64_t>(parts[0], {1}, ranks);
  expect_all<std::int64_t>(parts[1], {1}, 2 * ranks);
}

RANK_TEST(CollectivesWithNCCL, test_all_gather_into_tensor_coalesced) {
  expect_gathered_coalesced(world);
}

/// Of the elements that come from rank i each is i + 1.
void expect_exchanged(World& world, const Shape& row) {
  const std::int64_t ranks = world.size();
  const std::int64_t mine = world.rank() + 1;
  fc::Splits splits = std::vector<std::int64_t>();
  for (std::int64_t i = 0; i < ranks; ++i) splits->push_back((i + 1) * mine);
  Shape shape{mine * ranks * (ranks + 1) / 2};
  shape.insert(shape.end(), row.begin(), row.end());
  const Array sent = Array::full<float>(shape, static_cast<float>(mine));
  const Array received = fc::all_to_all_single(sent, splits, splits, one_row(world));
  EXPECT_EQ(received.shape(), shape);
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < ranks; ++i) {
    Shape part = shape;
    part[0] = (i + 1) * mine;
    expect_all<float>(received.narrow(0, start, part[0]), part, static_cast<float>(i + 1));
    start += part[0];
  }
}

RANK_TEST(CollectivesWithNCCL, test_all_to_all_single) { expect_exchanged(world, {5}); }
RANK_TEST(CollectivesWithNCCL, test_all_to_all_single_1d_input) { expect_exchanged(world, {}); }

RANK_TEST(CollectivesWithNCCL, test_all_to_all_single_split_sizes_none) {
  const std::int64_t ranks = world.size();
  const Array sent = Array::full<float>({ranks, ranks}, static_cast<float>(world.rank() + 1));
  const Array received = fc::all_to_all_single(sent, {}, {}, one_row(world));
  EXPECT_EQ(received.shape(), sent.shape());
  for (std::int64_t i = 0; i < ranks; ++i)
    expect_all<float>(received.select(0, i), {ranks}, static_cast<float>(i + 1));
}

RANK_TEST(NCCLCollectivesWithWorldSize4, test_permute_tensor_with_sub_group) {
  NEEDS_RANKS(4);
  if (world.size() != 4) return;
  const Mesh mesh(world, {2, 2}, {"dp", "tp"});
  for (const std::string name : {"dp", "tp"}) {
    const Mesh part = mesh[name];
    const int rank = part.rank();
    const Array received =
        fc::permute_tensor(counting({2}, static_cast<float>(2 * rank)), {1, 0}, part);
    const auto first = static_cast<float>(2 * (1 - rank));
    EXPECT_EQ(elements_of<float>(received), (std::vector<float>{first, first + 1}));
  }
}

// --- More than that.

RANK_TEST(Functional, PutsPartsInTheirPlaces) {
  const int ranks = world.size();
  const auto first = [](int rank) { return static_cast<float>(100 * rank); };
  const Array mine = counting({2, 3}, first(world.rank())).transpose(0, 1);  // 3 x 2, by columns
  const Array beside = fc::all_gather_tensor(mine, -1, world.group());
  EXPECT_EQ(beside.shape(), (Shape{3, 2 * ranks}));
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(beside.at<float>(2, 2 * rank + 1), first(rank) + 5);
  const Array back = fc::reduce_scatter_tensor(beside, "max", 1, world.group());
  EXPECT_EQ(elements_of<float>(back), elements_of<float>(mine));
}

RANK_TEST(Functional, TakesRanksAndRows) {
  std::vector<std::vector<int>> rows;
  for (int rank = 0; rank < world.size(); ++rank) rows.push_back({rank});
  const Array mine = ones({2});
  expect_all<float>(fc::all_reduce(mine, "sum", {world, rows, "alone"}), {2}, 1);
  const Array all = fc::all_reduce(mine, "sum", {world, everybody(world), "again"});
  expect_all<float>(all, {2}, static_cast<float>(world.size()));
  const ExpandedGroup named = expand_group(one_row(world), 0, "renamed");
  expect_all<float>(fc::all_reduce(mine, "sum", fc::Where::expanded(world, named)), {2},
                    static_cast<float>(world.size()));
  EXPECT_TRUE(world.find_group("renamed", everybody(world)).valid());
  expect_all<float>(fc::all_reduce(mine, ReduceOp::premul_sum(0.5), world.group()), {2},
                    0.5f * static_cast<float>(world.size()));
}

RANK_TEST(Functional, WaitsAtTheFirstLook) {
  const std::uint64_t before = world.group().collective_sequence();
  const Array sum = fc::all_reduce(ones({5}), "sum", world.group());
  EXPECT_EQ(world.group().collective_sequence(), before + 1);
  const Array view = sum.view({5, 1}).transpose(0, 1);
  const Array copy = sum;
  EXPECT_TRUE(sum.is_pending() && view.is_pending() && copy.is_pending());
  EXPECT_EQ(sum.shape(), (Shape{5}));
  EXPECT_TRUE(sum.is_pending());
  EXPECT_EQ(view.at<float>(0, 4), static_cast<float>(world.size()));
  EXPECT_FALSE(sum.is_pending() || view.is_pending() || copy.is_pending());
  EXPECT_FALSE(fc::wait_tensor(fc::all_reduce(sum, "max", world.group())).is_pending());
}

RANK_TEST(Functional, LetsGoOfWhatItWasGiven) {
  auto owner = std::make_shared<int>();
  std::vector<float> numbers(100, 1);
  const Array sum = fc::all_reduce(Array::borrow(numbers, {100}, owner), "sum", world.group());
  EXPECT_EQ(owner.use_count(), 2);
  expect_all<float>(sum, {100}, static_cast<float>(world.size()));
  EXPECT_EQ(owner.use_count(), 1);
}

RANK_TEST(Functional, ChainsWaitForWhatTheyTake) {
  Array array = ones({3, 4});
  for (int i = 0; i < 4; ++i)
    array = fc::reduce_scatter_tensor(fc::all_gather_tensor(array, i % 2, world.group()), "avg",
                                      i % 2, world.group());
  expect_all<float>(array, {3, 4}, 1);
}

RANK_TEST(Functional, WhatIsDroppedIsWaitedFor) {
  for (int i = 0; i < 20; ++i) (void)fc::all_reduce(ones({1000}), "sum", world.group());
  const Array part = fc::all_gather_tensor(ones({2}), 0, world.group()).narrow(0, 0, 2);
  expect_all<float>(part, {2}, 1);
}

TEST(Functional, TellsOfWhatIsDropped) {
  const Variable level("HYMN_LOG_LEVEL", "info");
  ::testing::internal::CaptureStderr();
  run_ranks(1, [](World& world) {
    (void)fc::wait_tensor(fc::all_reduce(ones({3}), "sum", world.group()));
    (void)fc::all_gather_tensor(ones({3}), 0, world.group());
  });
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("info: the result of all_gather_tensor was dropped"), std::string::npos)
      << told;
  EXPECT_EQ(told.find("result of all_reduce"), std::string::npos) << told;
}

// The call of a rank that throws would wait for the others, and they for that rank.
TEST(Functional, AnExceptionDoesNotWaitForResults) {
  const auto start = std::chrono::steady_clock::now();
  const auto rank_main = [](World& world) {
    ProcessGroup other = world.new_group(everybody(world));
    if (world.rank() == 1) return other.barrier();
    const Array sum = fc::all_reduce(ones({3}), "sum", world.group());
    throw std::runtime_error("of its own");
  };
  EXPECT_THROW(run_ranks(2, rank_main, {.timeout = std::chrono::minutes(5)}), std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

RANK_TEST(Functional, OutlivesItsGroup) {
  ProcessGroup group = world.new_group(everybody(world));
  const Array sum = fc::all_reduce(ones({3}), "sum", group);
  group.destroy();
  expect_all<float>(sum, {3}, static_cast<float>(world.size()));
}

RANK_TEST(Functional, EachLookThrowsWhatTheCallThrew) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group(everybody(world));
  Array sum;
  if (world.rank() == 0) sum = fc::all_reduce(ones({3}), "sum", group);
  world.group().barrier();
  if (world.rank() == 1) group.abort("no more");
  if (world.rank() == 0)
    for (int i = 0; i < 2; ++i)
      expect_error(ErrorKind::aborted, [&] { (void)sum.values<float>(); }, {"no more"});
  world.group().barrier();
}

// The call that nobody can wait for is not made, unless the scope makes it: its memory stays.
RANK_TEST(Functional, IsRefusedInsideACoalescingScope) {
  for (const bool starts : {false, true}) {
    CoalescingScope scope(world.group());
    expect_error(ErrorKind::usage, [&] { (void)fc::all_reduce(ones({3}), "sum", world.group()); },
                 {"coalescing scope", "all_reduce"});
    if (starts) scope.start().wait();
  }
}

// What find_mismatch() says of such programs.
RANK_TEST(Functional, CallsOnTwoGroupsMayCross) {
  std::vector<ProcessGroup> groups;
  for (int i = 0; i < 2; ++i) groups.push_back(world.new_group(everybody(world)));
  if (world.rank() % 2 == 1) std::swap(groups[0], groups[1]);
  std::vector<Array> sums;
  for (const ProcessGroup& group : groups)
    sums.push_back(fc::all_reduce(ones({20000}), "sum", group));
  for (const Array& sum : sums) expect_all<float>(sum, {20000}, static_cast<float>(world.size()));
}

RANK_TEST(Functional, TakesGroupsInAnOrderOfTheirOwn) {
  const int size = world.size();
  const int place = size - 1 - world.rank();
  const ProcessGroup turned = world.split(0, place);
  fc::Splits in(std::in_place);
  fc::Splits out(std::in_place);
  for (int i = 0; i < size; ++i) {
    in->push_back(i + 1);
    out->push_back(place + 1);
  }
  const std::int64_t rows = size * (size + 1) / 2;
  const Array mine = Array::full<float>({rows}, static_cast<float>(place));
  const Captured captured = capture([&] { (void)fc::all_to_all_single(mine, out, in, turned); });
  const std::vector<Array> results{fc::all_to_all_single(mine, out, in, turned),
                                   replay(captured, world, std::vector{mine}).front()};
  for (const Array& result : results)
    for (int i = 0; i < size; ++i)
      expect_all<float>(result.narrow(0, i * (place + 1), place + 1), {place + 1},
                        static_cast<float>(i));
  EXPECT_EQ(Program::from_json(captured.program.to_json()).groups[0].ranks,
            turned.membership().ranks);
}

// Records tell who has made a call, and not that the library has.
RANK_TEST(Functional, CallsAreKnownByWhoMakesThem) {
  fc::wait_tensor(fc::all_reduce(ones({3}), "sum", world.group()));
  fc::wait_tensor(fc::reduce_scatter_tensor_autograd(ones({world.size()}), "sum", 0, world.group())
                      .vjp(ones({1})));
  const std::string record = world.flight_record();
  EXPECT_NE(record.find("Functional_CallsAreKnownByWhoMakesThem"), std::string::npos) << record;
  EXPECT_EQ(record.find("hymn::functional::"), std::string::npos) << record;
}

RANK_TEST(Functional, WantsAGroup) {
  expect_error(ErrorKind::usage, [] { (void)fc::all_reduce(ones({3}), "sum", ProcessGroup()); });
  const std::vector<int> twice{world.rank(), world.rank()};
  expect_error(ErrorKind::usage, [&] { (void)fc::all_reduce(ones({3}), "sum", {world, twice}); });
}

}  // namespace
}  // namespace hymn::test
