// Shadowed calls whose blocks have sizes of their own: given counts, and lists of buffers.
#include <algorithm>

#include "tests/support/blocks.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

constexpr DataType element_type = DataType::int32;
constexpr ShadowOptions fills = {.fill = -3, .root_fill = 7};

/// Rank 0 has none, and is a root nevertheless.
int inputs_of(int rank) { return rank * 2 % 5; }
bool is_active(int rank, int iteration) { return inputs_of(rank) > iteration; }
constexpr int in_which_all_are_active = -1;

/// What one gives to another, by group ranks.
std::size_t between(int from, int to) { return as_size((from * 7 + to * 5) % 4 * 9 + to % 2); }

void expect_number(BufferView view, double number) {
  Buffer expected(element_type, view.count);
  auto* const values = reinterpret_cast<std::int32_t*>(expected.data());
  std::fill_n(values, view.count, static_cast<std::int32_t>(number));
  expect_equal(expected, view);
}

/// Makes calls on a group in an iteration in which this rank is active.
class BlocksCaller {
 public:
  BlocksCaller(ProcessGroup group, int rank, int iteration)
      : group_(std::move(group)),
        rank_(rank),
        iteration_(iteration),
        counts_(uneven_counts(group_.size())),
        own_(counts_[as_size(group_.rank())]) {}

  void all() {
    all_gather();
    reduce_scatter();
    // One that still runs when all others have run out, and one that may have run out.
    for (const int root :
         {*std::ranges::max_element(ranks_of(group_), {}, inputs_of), group_.global_rank(0)}) {
      gather(root);
      scatter(root);
    }
    all_to_all();
    all_to_all_of_two_forms();
  }

 private:
  /// What has come from each member; `salt` as it was filled there.
  void expect_from(int member, BufferView block, int salt) const {
    const int rank = group_.global_rank(member);
    if (is_active(rank, iteration_))
      expect_filled(block, rank, salt);
    else
      expect_number(block, fills.fill);
  }
  void expect_from_all(BlockBuffer& blocks, int salt) const {
    for (int member = 0; member < group_.size(); ++member)
      expect_from(member, blocks.block(member), salt);
  }
  void expect_from_all(ListBuffer& blocks, int salt) const {
    const std::vector<BufferView> views = blocks.views();
    for (int member = 0; member < group_.size(); ++member)
      expect_from(member, views[as_size(member)], salt);
  }

  void all_gather() {
    BlockBuffer flat(element_type, counts_);
    group_.all_gather(filled(element_type, own_, rank_, 5), flat.view(), counts_);
    expect_from_all(flat, 5);
    ListBuffer list(element_type, counts_);
    group_.all_gather(filled(element_type, own_, rank_, 6), list.views());
    expect_from_all(list, 6);
  }
  void reduce_scatter() {
    std::vector<int> active;
    for (const int rank : ranks_of(group_))
      if (is_active(rank, iteration_)) active.push_back(rank);
    std::size_t total = 0;
    for (const std::size_t count : counts_) total += count;
    const Buffer in = reduction_input(element_type, ReduceKind::sum, rank_, total);
    Buffer whole = reduction_result(element_type, ReduceKind::sum, active, total);
    const BufferView expected =
        OutputBlocks::counted(whole, counts_).block(group_.rank(), group_.size());
    Buffer out(element_type, own_);
    group_.reduce_scatter(in, counts_, out);
    expect_equal(expected, out);
    std::vector<ConstBufferView> list;
    InputBlocks::counted(in, counts_).for_each(group_.size(), [&](int, ConstBufferView block) {
      list.push_back(block);
    });
    Buffer again(element_type, own_);
    group_.reduce_scatter(list, again);
    expect_equal(expected, again);
  }
  void gather(int root) {
    const bool here = rank_ == root;
    BlockBuffer flat(element_type, counts_);
    group_.gather(filled(element_type, own_, rank_, 3), here ? flat.view() : BufferView(), counts_,
                  root);
    if (here) expect_from_all(flat, 3);
    ListBuffer list(element_type, counts_);
    const std::vector<BufferView> views = list.views();
    group_.gather(filled(element_type, own_, rank_, 4),
                  here ? std::span(views) : std::span<const BufferView>(), root);
    if (here) expect_from_all(list, 4);
  }
  void scatter(int root) {
    const bool here = rank_ == root;
    BlockBuffer flat(element_type, counts_);
    flat.fill_for_each(root);
    Buffer out(element_type, own_);
    group_.scatter(here ? flat.view() : BufferView(), counts_, out, root);
    expect_scattered(out, root);
    ListBuffer list(element_type, counts_);
    list.fill_for_each(root);
    const std::vector<ConstBufferView> views = list.const_views();
    Buffer again(element_type, own_);
    group_.scatter(here ? std::span(views) : std::span<const ConstBufferView>(), again, root);
    expect_scattered(again, root);
  }
  void expect_scattered(BufferView out, int root) const {
    if (is_active(root, iteration_))
      expect_filled(out, root, group_.rank());
    else
      expect_number(out, *fills.root_fill);
  }
  void all_to_all() {
    std::vector<std::size_t> to;
    std::vector<std::size_t> from;
    for (int member = 0; member < group_.size(); ++member) {
      to.push_back(between(group_.rank(), member));
      from.push_back(between(member, group_.rank()));
    }
    BlockBuffer in(element_type, to);
    in.fill_for_each(rank_);
    BlockBuffer out(element_type, from);
    group_.all_to_all(in.view(), to, out.view(), from);
    expect_from_all(out, group_.rank());
    ListBuffer in_list(element_type, to);
    in_list.fill_for_each(rank_);
    ListBuffer out_list(element_type, from);
    group_.all_to_all(in_list.const_views(), out_list.views());
    expect_from_all(out_list, group_.rank());
  }
  void all_to_all_of_two_forms() {
    BlockBuffer in(element_type, group_.size(), 5);
    in.fill_for_each(rank_);
    BlockBuffer out(element_type, group_.size(), 5);
    group_.run(Request::all_to_all(InputBlocks::counted(in.view(), in.counts()),
                                   OutputBlocks::equal(out.view())));
    expect_from_all(out, group_.rank());
  }

  ProcessGroup group_;
  int rank_;
  int iteration_;
  std::vector<std::size_t> counts_;
  std::size_t own_;
};

void expect_shadowed(World& world, const ProcessGroup& group) {
  Join::shadow_all(
      {group},
      [&] {
        if (!group.is_member()) return;
        for (int iteration = 0; iteration < inputs_of(world.rank()); ++iteration)
          BlocksCaller(group, world.rank(), iteration).all();
      },
      fills);
}

RANK_TEST(Shadow, OfBlocksOfAnySizes) {
  expect_shadowed(world, world.group());
  expect_world_works(world);
}

RANK_TEST(Shadow, OfBlocksOfAnySizesInASubgroup) {
  NEEDS_RANKS(3);
  std::vector<int> ranks = ranks_of(world.group());
  ranks.erase(ranks.begin() + 1);
  expect_shadowed(world, world.new_group(ranks));
  expect_world_works(world);
}

/// Rank 0 cannot know them, and says so; all others hear of it, in their first call or, as rank 0
/// gives nothing to that one, a later one.
void expect_sizes_unknown(World& world) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  const auto run = [&] {
    Join::shadow_all({group}, [&] {
      if (world.rank() != 0) BlocksCaller(group, world.rank(), in_which_all_are_active).all();
    });
  };
  const Words why = {"all_gather", "cannot be shadowed", "more sizes"};
  const Error error = failure_of(run, why);
  if (world.rank() == 0) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    EXPECT_NE(error.context().remedy.find("HYMN_RECORDER_COUNTS"), std::string::npos);
  } else {
    EXPECT_EQ(error.kind(), ErrorKind::aborted) << error.what();
    EXPECT_EQ(error.context().missing, std::vector<int>{0}) << error.what();
  }
  expect_world_works(world);
}

TEST(ShadowFailure, OfMoreBlocksThanAreRecorded) {
  const Variable counts("HYMN_RECORDER_COUNTS", "1");
  on_ranks(expect_sizes_unknown);
}

}  // namespace
}  // namespace hymn::test
