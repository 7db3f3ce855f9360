// Layouts that cannot be taken as they lie, and those that differ: between the two sides of a call,
// and from rank to rank. docs/layouts.md.
#include <array>
#include <chrono>

#include "hymn/coalesce.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const ArrayLayout in_rows({2, 3, 4, 5}, {0, 1, 2, 3});

// --- On one rank

/// Whether what is a single buffer on every rank is the output.
bool is_of_its_output(OpType type) { return has_input_blocks(type) || traits_of(type).one_buffer; }

RANK_TEST(LayoutErrors, GapsOverlapsAndNegativeStrides) {
  const std::array<Sizes, 7> all = {Sizes{120, 2, 30, 6}, Sizes{60, 0, 15, 3}, Sizes{-60, 1, 15, 3},
                                    Sizes{60, 20, 5, -1}, Sizes{60, 20, 5, 5}, Sizes{0, 0, 0, 0},
                                    Sizes{70, 20, 5, 1}};
  Array array(channels_last);
  const auto ranks = ranks_as_size(world);
  Buffer blocks(DataType::int32, 120 * ranks);
  for (const Sizes& strides : all)
    for (const OpType type : collectives()) {
      if (type == OpType::barrier || type == OpType::all_to_all) continue;
      SCOPED_TRACE(to_string(type));
      const BufferView bad = with_strides(array, strides);
      const Request request = is_of_its_output(type) ? request_over(type, blocks, bad)
                                                     : request_over(type, bad, blocks);
      expect_refused(world.group(), ErrorKind::usage, to_string(type),
                     [&] { world.group().run(request); }, {"gaps or overlaps", "contiguous"});
      expect_refused(world.group(), ErrorKind::usage, to_string(type),
                     [&] { world.group().start(request).wait(); }, {"gaps or overlaps"});
    }
  const ArrayLayout whole = channels_last.with_outer(2 * static_cast<std::int64_t>(ranks));
  for (const OpType type : {OpType::all_gather, OpType::reduce_scatter, OpType::all_to_all}) {
    SCOPED_TRACE(to_string(type));
    Array in(has_input_blocks(type) ? whole : channels_last);
    Array out(has_output_blocks(type) ? whole : channels_last);
    Sizes strides = whole.strides();
    ++strides[0];
    const bool by_input = has_input_blocks(type);
    const Request request = request_over(type, by_input ? with_strides(in, strides) : in.view(),
                                         by_input ? out.view() : with_strides(out, strides));
    expect_refused(world.group(), ErrorKind::usage, to_string(type),
                   [&] { world.group().run(request); }, {"gaps or overlaps", "strides"});
  }
  array.expect_untouched();
}

RANK_TEST(LayoutErrors, OfMessages) {
  NEEDS_RANKS(2);
  Array array(channels_last);
  const Sizes with_gaps = {120, 2, 30, 6};
  const BufferView bad = with_strides(array, with_gaps);
  const int other = world.rank() == 0 ? 1 : 0;
  for (const Request& request : {Request::send(bad, other), Request::recv(bad, other)})
    expect_refused(world.group(), ErrorKind::usage, to_string(request.type),
                   [&] { world.group().run(request); }, {"gaps or overlaps"});
  expect_refused(world.group(), ErrorKind::usage, "broadcast_coalesced", [&] {
    const std::array<BufferView, 1> views{bad};
    broadcast_coalesced(world.group(), views, 1000, 0);
  });
}

RANK_TEST(LayoutErrors, InputAndOutputMustLieAlike) {
  Array in(channels_last);
  Array out(reversed);
  for (const OpType type : {OpType::all_reduce, OpType::scan, OpType::exscan})
    expect_refused(world.group(), ErrorKind::usage, to_string(type),
                   [&] { world.group().run(request_over(type, in.input(), out.view())); },
                   {"change places", "[2, 3, 4, 5] with strides [60, 1, 15, 3]",
                    "[2, 3, 4, 5] with strides [1, 2, 6, 24]"});
  out.expect_untouched();
  // A buffer without a shape takes them as they lie.
  Buffer flat(DataType::int32, 120);
  in.fill([](const Sizes&) { return 1; });
  world.group().all_reduce(in.input(), flat);
}

// Cut in memory, channels-last blocks come from the images, and reversed ones from what is last.
RANK_TEST(LayoutErrors, BlocksMustBeThoseOfTheOutermostDimension) {
  const auto ranks = static_cast<std::int64_t>(world.size());
  NEEDS_RANKS(2);
  Array block(channels_last);
  const auto expect_told = [&](const ArrayLayout& whole) {
    Array all(whole);
    for (const OpType type : {OpType::all_gather, OpType::reduce_scatter})
      expect_refused(world.group(), ErrorKind::usage, to_string(type),
                     [&] {
                       world.group().run(type == OpType::all_gather
                                             ? request_over(type, block.input(), all.view())
                                             : request_over(type, all.input(), block.view()));
                     },
                     {"change places", "outermost"});
  };
  expect_told(in_rows.with_outer(2 * ranks));
  expect_told(reversed.with_outer(5 * ranks));
  expect_told(ArrayLayout({2, 3 * ranks, 4, 5}, {0, 2, 3, 1}));
  // Stacked, they have a dimension of their own.
  Array stacked(ArrayLayout({ranks, 2, 3, 4, 5}, {0, 1, 3, 4, 2}));
  block.fill([&](const Sizes& index) { return 1000 * world.rank() + channels_last.number(index); });
  world.group().all_gather(block.input(), stacked.view());
  stacked.expect([&](const Sizes& index) {
    return static_cast<std::int32_t>(1000 * index[0]) +
           channels_last.number({index.begin() + 1, index.end()});
  });
}

// --- From rank to rank

/// The call, and some that all make alike: whoever only gives hears of the others by these.
std::string call_then_meet(ProcessGroup& group, const Request& request, bool flies) {
  try {
    if (flies)
      group.start(request).wait();
    else
      group.run(request);
    for (int turn = 0; turn < 3; ++turn) group.barrier();
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::usage || error.kind() == ErrorKind::aborted)
        << error.what();
    return error.what();
  }
  return "";
}

/// The last rank lays its buffer out in another way.
void expect_told_apart(World& world, ProcessGroup& group, OpType type, bool flies) {
  const auto ranks = static_cast<std::int64_t>(world.size());
  const ArrayLayout& layout = is_last_rank(world) ? reversed : channels_last;
  const ArrayLayout whole = layout.with_outer(ranks * layout.shape()[layout.outermost()]);
  Array in(has_input_blocks(type) ? whole : layout);
  Array out(has_output_blocks(type) ? whole : layout);
  in.fill([](const Sizes&) { return 1; });
  const Request request = request_over(type, in.input(), out.view());
  if (group.explain(request).algorithm.empty()) return;
  const std::string text = call_then_meet(group, request, flies);
  EXPECT_TRUE(type == OpType::all_to_all || names_both_layouts(text)) << text;
  EXPECT_NE(text, "");
}

RANK_TEST(LayoutErrors, ThatDifferAreFoundWhereHymnMovesTheData) {
  NEEDS_RANKS(2);
  for (const OpType type : collectives()) {
    if (type == OpType::barrier) continue;
    for (const Road& road : roads_of(world.group(), type)) {
      if (road.path == "mpi") continue;  // which carries nothing of hymn's
      SCOPED_TRACE(to_string(road) + ": " + std::string(to_string(type)));
      for (const bool flies : {false, true}) {
        ProcessGroup group = world.new_group(everybody(world), forced(road));
        group.set_timeout(50s);
        expect_told_apart(world, group, type, flies);
      }
    }
  }
}

// A buffer without a shape is one whose elements lie as they come.
RANK_TEST(LayoutErrors, FlatBuffersAreNotPermuted) {
  NEEDS_RANKS(2);
  for (const Road& road : roads_of(world.group(), OpType::all_reduce)) {
    if (road.path == "mpi") continue;
    SCOPED_TRACE(to_string(road));
    ProcessGroup group = world.new_group(everybody(world), forced(road));
    Array array(is_last_rank(world) ? channels_last : in_rows);
    BufferView view = array.view();
    if (!is_last_rank(world)) view.shape = view.strides = {};
    array.fill([](const Sizes&) { return 1; });
    const Request request = Request::all_reduce(view, view);
    if (group.explain(request).algorithm.empty()) continue;
    EXPECT_NE(call_then_meet(group, request, false), "");
  }
}

}  // namespace
}  // namespace hymn::test
