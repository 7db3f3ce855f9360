// What the checks say of layouts that differ from rank to rank. docs/layouts.md, docs/checks.md.
#include <chrono>

#include "tests/support/arrays.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

void in_detail(const std::function<void(World&)>& body) {
  on_ranks(body, {.checks = CheckLevel::detail});
}

void expect_sum_works(World& world) {
  std::int32_t one = 1;
  world.group().all_reduce(view_of(one));
  EXPECT_EQ(one, world.size());
}

TEST(LayoutErrorsDetail, BothAreToldAndTheGroupGoesOn) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    for (const OpType type : collectives()) {
      if (type == OpType::barrier) continue;
      SCOPED_TRACE(to_string(type));
      const auto ranks = static_cast<std::int64_t>(world.size());
      const ArrayLayout& layout = is_last_rank(world) ? reversed : channels_last;
      const ArrayLayout whole = layout.with_outer(ranks * layout.shape()[layout.outermost()]);
      Array in(has_input_blocks(type) ? whole : layout);
      Array out(has_output_blocks(type) ? whole : layout);
      const bool both = type == OpType::all_to_all;  // there the shapes differ, too
      expect_error(ErrorKind::usage,
                   [&] { world.group().run(request_over(type, in.input(), out.view())); },
                   {both ? "the shape is ["
                         : "the layout is [2, 3, 4, 5] with strides [60, 1, 15, 3] on rank 0",
                    both ? "] on rank 0" : "but [2, 3, 4, 5] with strides [1, 2, 6, 24] on rank "});
      out.expect_untouched();
    }
    expect_sum_works(world);
  });
}

/// The last rank gives a block in another way than the others take it.
void expect_blocks_told_apart(World& world, const std::string& path = {}) {
  std::vector<Array> arrays;
  std::vector<BufferView> list;
  for (int rank = 0; rank < world.size(); ++rank) arrays.emplace_back(channels_last);
  for (Array& array : arrays) list.push_back(array.view());
  Array mine(is_last_rank(world) ? reversed : channels_last);
  if (is_last_rank(world)) list.back() = reversed.describe(list.back());  // as it gives it
  const auto expect_told = [&](const std::function<void(ProcessGroup&)>& call) {
    ProcessGroup group = world.new_group(everybody(world), {.path = path});
    const std::string text = error_text([&] { call(group); });
    EXPECT_NE(text.find("0, 2, 3, 1"), text.npos) << text;
    EXPECT_NE(text.find("3, 2, 1, 0"), text.npos) << text;
  };
  expect_told([&](ProcessGroup& group) { group.all_gather(mine.input(), list); });

  const std::vector<std::size_t> counts(ranks_as_size(world), channels_last.count());
  const auto ranks = static_cast<std::int64_t>(world.size());
  const ArrayLayout& layout = mine.layout();
  Array all(layout.with_outer(ranks * layout.shape()[layout.outermost()]));
  expect_told([&](ProcessGroup& group) { group.all_gather(mine.input(), all.view(), counts); });
  all.expect_untouched();
}

TEST(LayoutErrorsDetail, OfBlocksOfTheirOwn) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    expect_blocks_told_apart(world);
    expect_sum_works(world);
  });
}

// What is on the root's side of another rank is not looked at.
TEST(LayoutErrorsDetail, MayBeAnythingWhereTheyAreIgnored) {
  in_detail([](World& world) {
    Array in(channels_last);
    in.fill([](const Sizes&) { return 1; });
    Array all(channels_last.with_outer(2 * world.size()));
    const std::vector<std::size_t> counts(ranks_as_size(world), channels_last.count());
    const Sizes zeros(world.rank() % 2 == 0 ? 4 : 2);
    const BufferView out = world.rank() == 0 ? all.view() : with_strides(all, zeros);
    world.group().gather(in.input(), out, 0);
    world.group().gather(in.input(), out, counts, 0);
    if (world.rank() == 0) all.expect([](const Sizes&) { return 1; });
  });
}

// Over threads without being asked for.
TEST(LayoutErrors, OfBlocksOfTheirOwn) {
  if (!ranks_are_threads()) GTEST_SKIP() << "only threads see each other's calls";
  on_ranks([](World& world) {
    NEEDS_RANKS(2);
    expect_blocks_told_apart(world, "threads");
  });
}

TEST(LayoutErrorsInfo, BothAreTold) {
  on_ranks(
      [](World& world) {
        NEEDS_RANKS(2);
        ProcessGroup group = world.new_group(everybody(world), {.path = "exchange"});
        Array array(is_last_rank(world) ? reversed : channels_last);
        array.fill([](const Sizes&) { return 1; });
        const std::string text = error_text([&] {
          group.all_reduce(array.view());
          const auto begun = std::chrono::steady_clock::now();
          while (std::chrono::steady_clock::now() - begun < 20s) group.barrier();
        });
        EXPECT_TRUE(names_both_layouts(text)) << text;
      },
      {.checks = CheckLevel::info});
}

}  // namespace
}  // namespace hymn::test
