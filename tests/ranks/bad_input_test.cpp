// Calls that are wrong: each is a clear typed error before anything is sent, and the next call
// works.
#include <array>
#include <numeric>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

constexpr ErrorKind usage = ErrorKind::usage;
constexpr std::size_t huge = static_cast<std::size_t>(-1);  // what a negative count turns into

RANK_TEST(BadInput, RootOutOfRange) {
  ProcessGroup& group = world.group();
  Buffer buffer(DataType::int32, 4);
  BlockBuffer blocks(DataType::int32, world.size(), 4);
  for (const int root : {world.size(), world.size() + 5, -1, -2}) {
    const std::string named = std::to_string(root);
    expect_refused(group, usage, "broadcast", [&] { group.broadcast(buffer, root); }, {named});
    expect_refused(group, usage, "reduce", [&] { group.reduce(buffer, root); }, {named});
    expect_refused(group, usage, "gather", [&] { group.gather(buffer, blocks.view(), root); },
                   {named});
    expect_refused(group, usage, "scatter", [&] { group.scatter(blocks.view(), buffer, root); },
                   {named});
    expect_refused(group, usage, "broadcast", [&] { (void)group.broadcast_async(buffer, root); },
                   {named});
  }
  expect_untouched(buffer);
}

RANK_TEST(BadInput, CountsOfTheTwoSidesDiffer) {
  ProcessGroup& group = world.group();
  const std::size_t ranks = ranks_as_size(world);
  Buffer four(DataType::int32, 4);
  Buffer five(DataType::int32, 5);
  Buffer too_many(DataType::int32, 4 * ranks + 1);
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(four, five); }, {"4", "5"});
  expect_refused(group, usage, "all_reduce", [&] { (void)group.all_reduce_async(four, five); });
  expect_refused(group, usage, "all_gather", [&] { group.all_gather(four, too_many); });
  expect_refused(group, usage, "reduce_scatter", [&] { group.reduce_scatter(too_many, four); });
  expect_refused(group, usage, "all_to_all", [&] { group.all_to_all(too_many, four); });
  if (world.size() > 1) {
    Buffer uneven(DataType::int32, 2 * ranks + 1);
    Buffer same(DataType::int32, 2 * ranks + 1);
    expect_refused(group, usage, "all_to_all", [&] { group.all_to_all(uneven, same); });
  }
}

RANK_TEST(BadInput, CountsOfTheTwoSidesDifferOnARoot) {
  // In a world of one, so that every rank is a root and none waits for another.
  ProcessGroup alone;
  for (int rank = 0; rank < world.size(); ++rank) {
    ProcessGroup group = world.new_group({rank});
    if (group.is_member()) alone = group;
  }
  const int self = world.rank();
  Buffer four(DataType::int32, 4);
  Buffer five(DataType::int32, 5);
  expect_refused(alone, usage, "reduce", [&] { alone.reduce(four, five, self); }, {"4", "5"});
  expect_refused(alone, usage, "gather", [&] { alone.gather(four, five, self); });
  expect_refused(alone, usage, "scatter", [&] { alone.scatter(four, five, self); });
  const std::array outputs = {five.view()};
  expect_refused(alone, usage, "gather", [&] { alone.gather(four, outputs, self); });
}

RANK_TEST(BadInput, GivenCountsDisagree) {
  ProcessGroup& group = world.group();
  const std::vector<std::size_t> threes(ranks_as_size(world), 3);
  const std::vector<std::size_t> too_few(ranks_as_size(world) - 1, 3);
  const std::vector<std::size_t> too_many(ranks_as_size(world) + 1, 3);
  std::vector<std::size_t> overflowing = threes;
  overflowing[0] = huge;
  Buffer three(DataType::int32, 3);
  Buffer two(DataType::int32, 2);
  BlockBuffer all(DataType::int32, threes);
  Buffer longer(DataType::int32, 3 * threes.size() + 1);
  const BufferView out = all.view();
  // A list of counts of the wrong length.
  for (const auto& counts : {too_few, too_many}) {
    expect_refused(group, usage, "all_gather", [&] { group.all_gather(three, out, counts); });
    expect_refused(group, usage, "gather", [&] { group.gather(three, out, counts, 0); });
    expect_refused(group, usage, "scatter", [&] { group.scatter(out, counts, three, 0); });
    expect_refused(group, usage, "reduce_scatter",
                   [&] { group.reduce_scatter(out, counts, three); });
    expect_refused(group, usage, "all_to_all",
                   [&] { group.all_to_all(out, counts, longer, threes); });
  }
  // Counts that do not add up to the buffer, or do not match what this rank gives or takes.
  expect_refused(group, usage, "all_gather", [&] { group.all_gather(three, longer, threes); });
  expect_refused(group, usage, "all_gather", [&] { group.all_gather(two, out, threes); });
  expect_refused(group, usage, "all_gather", [&] { group.all_gather(three, out, overflowing); });
  if (world.size() > 2) {
    overflowing[1] = 7;  // so that the sum, which wraps, is that of the buffer
    expect_refused(group, usage, "all_gather", [&] { group.all_gather(three, out, overflowing); });
  }
  expect_refused(group, usage, "reduce_scatter",
                 [&] { group.reduce_scatter(longer, threes, three); });
  expect_refused(group, usage, "reduce_scatter", [&] { group.reduce_scatter(out, threes, two); });
  expect_refused(group, usage, "all_to_all",
                 [&] { group.all_to_all(longer, threes, out, threes); });
  expect_refused(group, usage, "gather", [&] { group.gather(two, out, threes, 0); });
  expect_refused(group, usage, "scatter", [&] { group.scatter(out, threes, two, 0); });
}

RANK_TEST(BadInput, NegativeCounts) {
  ProcessGroup& group = world.group();
  std::int32_t memory = 7;
  const BufferView view(&memory, static_cast<std::size_t>(-3), DataType::int32);
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(view); });
  expect_refused(group, usage, "broadcast", [&] { group.broadcast(view, 0); });
  EXPECT_EQ(memory, 7);
}

RANK_TEST(BadInput, NullWithElements) {
  ProcessGroup& group = world.group();
  const BufferView null(nullptr, 4, DataType::int32);
  Buffer buffer(DataType::int32, 4);
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(null); }, {"null"});
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(null, buffer); }, {"null"});
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(buffer, null); }, {"null"});
  expect_refused(group, usage, "broadcast", [&] { group.broadcast(null, 0); }, {"null"});
  expect_refused(group, usage, "reduce", [&] { group.reduce(null, buffer, 0); }, {"null"});
  if (world.size() > 1) {
    const int peer = (world.rank() + 1) % world.size();
    expect_refused(group, usage, "send", [&] { group.send(null, peer); }, {"null"});
    expect_refused(group, usage, "recv", [&] { group.recv(null, peer); }, {"null"});
  }
  std::vector views(ranks_as_size(world), buffer.view());
  views.back() = null;
  expect_refused(group, usage, "all_gather", [&] { group.all_gather(buffer, views); }, {"null"});
}

RANK_TEST(BadInput, PeersAndTagsOutOfRange) {
  ProcessGroup& group = world.group();
  Buffer buffer(DataType::int32, 4);
  for (const int peer : {world.size(), -2, world.size() + 100}) {
    const std::string named = std::to_string(peer);
    expect_refused(group, usage, "send", [&] { group.send(buffer, peer); }, {named});
    expect_refused(group, usage, "recv", [&] { group.recv(buffer, peer); }, {named});
    expect_refused(group, usage, "send", [&] { (void)group.isend(buffer, peer); }, {named});
    expect_refused(group, usage, "recv", [&] { (void)group.irecv(buffer, peer); }, {named});
  }
  expect_refused(group, usage, "send", [&] { group.send(buffer, any_source); });
  if (world.size() == 1) return;
  const int peer = (world.rank() + 1) % world.size();
  for (const int tag : {-1, ProcessGroup::max_tag + 1}) {
    const std::string named = std::to_string(tag);
    expect_refused(group, usage, "send", [&] { group.send(buffer, peer, tag); }, {"tag", named});
    expect_refused(group, usage, "recv", [&] { group.recv(buffer, peer, tag); }, {"tag", named});
  }
}

RANK_TEST(BadInput, test_tensor_dtype_mismatch) {
  ProcessGroup& group = world.group();
  const std::size_t ranks = ranks_as_size(world);
  Buffer floats(DataType::float32, 4);
  Buffer halves(DataType::float16, 4);
  Buffer many_floats(DataType::float32, 4 * ranks);
  Buffer many_halves(DataType::float16, 4 * ranks);
  const auto expect_found = [&](std::string_view operation, const std::function<void()>& call) {
    expect_refused(group, usage, operation, call, {"tensors with different dtypes"});
  };
  expect_found("all_reduce", [&] { group.all_reduce(floats, halves); });
  expect_found("scan", [&] { group.scan(floats, halves); });
  expect_found("all_gather", [&] { group.all_gather(floats, many_halves); });
  expect_found("reduce_scatter", [&] { group.reduce_scatter(many_halves, floats); });
  expect_found("all_to_all", [&] { group.all_to_all(many_halves, many_floats); });
  // Of rooted ones it is found on all ranks that have both sides.
  expect_found("reduce", [&] { group.reduce(halves, floats, 0); });
  expect_found("gather", [&] { group.gather(halves, many_floats, 0); });
  expect_found("scatter", [&] { group.scatter(many_floats, halves, 0); });

  ListBuffer whole(DataType::float32, std::vector<std::size_t>(ranks, 4));
  const std::vector<BufferView> all = whole.views();
  std::vector<BufferView> mixed = all;
  mixed.back() = halves;
  const std::vector<ConstBufferView> all_in(all.begin(), all.end());
  const std::vector<ConstBufferView> mixed_in(mixed.begin(), mixed.end());
  expect_found("all_gather", [&] { group.all_gather(halves, all); });
  expect_found("gather", [&] { group.gather(halves, all, 0); });
  expect_found("scatter", [&] { group.scatter(all_in, halves, 0); });
  expect_found("reduce_scatter", [&] { group.reduce_scatter(all_in, halves); });
  if (ranks == 1) return;
  expect_found("all_gather", [&] { group.all_gather(floats, mixed); });
  expect_found("gather", [&] { group.gather(floats, mixed, 0); });
  expect_found("scatter", [&] { group.scatter(mixed_in, floats, 0); });
  expect_found("reduce_scatter", [&] { group.reduce_scatter(mixed_in, floats); });
  expect_found("all_to_all", [&] { group.all_to_all(mixed_in, all); });
  expect_found("all_to_all", [&] { group.all_to_all(all_in, mixed); });
  expect_found("all_reduce", [&] { group.all_reduce_coalesced(mixed); });
  std::vector<BufferView> outs(ranks, many_floats);
  outs.back() = many_halves;
  expect_found("all_gather", [&] { group.all_gather_coalesced(mixed_in, outs); });
  // Beside the root there need not be anything, and what is empty has no dtype.
  const bool is_root = world.rank() == 0;
  group.gather(floats, is_root ? many_floats.view() : BufferView(), 0);
  group.scatter(is_root ? ConstBufferView(many_floats) : ConstBufferView(), floats, 0);
}

RANK_TEST(BadInput, ListsOfTheWrongLength) {
  ProcessGroup& group = world.group();
  const std::size_t ranks = ranks_as_size(world);
  Buffer buffer(DataType::float32, 4);
  ListBuffer list(DataType::float32, std::vector<std::size_t>(ranks + 1, 4));
  for (const std::size_t length : {ranks + 1, ranks - 1}) {
    std::vector<BufferView> outputs = list.views();
    outputs.resize(length);
    const std::vector<ConstBufferView> inputs(outputs.begin(), outputs.end());
    expect_refused(group, usage, "all_gather", [&] { group.all_gather(buffer, outputs); });
    expect_refused(group, usage, "reduce_scatter", [&] { group.reduce_scatter(inputs, buffer); });
    expect_refused(group, usage, "all_to_all", [&] { group.all_to_all(inputs, outputs); });
  }
  // On a root the lists of gather and scatter may not be empty or too long either; a world of one
  // keeps the other ranks out of it.
  ProcessGroup alone;
  for (int rank = 0; rank < world.size(); ++rank) {
    ProcessGroup group_of_one = world.new_group({rank});
    if (group_of_one.is_member()) alone = group_of_one;
  }
  const int self = world.rank();
  const std::vector<BufferView> two = {buffer, buffer};
  expect_refused(alone, usage, "gather", [&] { alone.gather(buffer, two, self); });
  expect_refused(alone, usage, "gather",
                 [&] { alone.gather(buffer, std::span<const BufferView>(), self); });
  expect_refused(alone, usage, "scatter",
                 [&] { alone.scatter(std::span<const ConstBufferView>(), buffer, self); });
}

RANK_TEST(BadInput, OverlappingBuffers) {
  ProcessGroup& group = world.group();
  const std::size_t ranks = ranks_as_size(world);
  Buffer memory(DataType::float32, 8 * ranks + 8);
  const auto part = [&](std::size_t first, std::size_t count) {
    return memory.slice(first, count);
  };
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(part(0, 8), part(4, 8)); },
                 {"overlap"});
  expect_refused(group, usage, "all_reduce", [&] { group.all_reduce(part(4, 8), part(0, 8)); },
                 {"overlap"});
  expect_refused(group, usage, "reduce_scatter",
                 [&] { group.reduce_scatter(part(0, 8 * ranks), part(8 * ranks - 4, 8)); },
                 {"overlap"});
  expect_refused(group, usage, "all_gather",
                 [&] { group.all_gather(part(8 * ranks - 4, 8), part(0, 8 * ranks)); },
                 {"overlap"});
  expect_refused(group, usage, "all_to_all",
                 [&] { group.all_to_all(part(0, 8 * ranks), part(1, 8 * ranks)); }, {"overlap"});
  if (ranks == 1) return;
  // Two outputs of one list.
  Buffer in(DataType::float32, 8);
  std::vector<BufferView> outputs;
  for (std::size_t i = 0; i < ranks; ++i) outputs.push_back(part(8 * i, 8));
  outputs[1] = part(7, 8);
  expect_refused(group, usage, "all_gather", [&] { group.all_gather(in, outputs); }, {"overlap"});
}

RANK_TEST(BadInput, TouchingBuffersAreFine) {
  Buffer memory(DataType::float32, 16);
  const BufferView in = memory.slice(0, 8);
  const BufferView out = memory.slice(8, 8);
  fill(in, 0);
  world.group().all_reduce(in, out, ReduceOp::max);
  expect_filled(in, 0);
}

RANK_TEST(BadInput, DeviceMemoryWithoutADevice) {
  ProcessGroup& group = world.group();
  Buffer buffer(DataType::float32, 4);
  BufferView view = buffer;
  view.memory = MemoryKind::device;
  expect_refused(group, ErrorKind::unsupported, "all_reduce", [&] { group.all_reduce(view); },
                 {"device memory"});
  view.memory = MemoryKind::pinned;  // is host memory, too
  fill(buffer, 0);
  group.all_reduce(view, ReduceOp::min);
  expect_filled(buffer, 0);
}

RANK_TEST(BadInput, OpaqueTypesNobodyKnows) {
  ProcessGroup& group = world.group();
  const int handle = 0;
  const OpaqueType type{.handle = &handle, .library = "another", .element_bytes = 4};
  Buffer memory(DataType::uint8, 16);
  BufferView view(memory.data(), 4, DataType::opaque);
  view.opaque = &type;
  expect_refused(group, ErrorKind::unsupported, "all_reduce", [&] { group.all_reduce(view); });
  expect_refused(group, ErrorKind::unsupported, "broadcast", [&] { group.broadcast(view, 0); });
  if (ranks_are_threads()) {
    const OpaqueType of_mpi{.handle = &handle, .library = "mpi", .element_bytes = 4};
    view.opaque = &of_mpi;
    expect_refused(group, ErrorKind::unsupported, "broadcast", [&] { group.broadcast(view, 0); },
                   {"unknown MPI type"});
    Buffer values(DataType::float32, 4);
    expect_refused(group, ErrorKind::unsupported, "all_reduce",
                   [&] { group.all_reduce(values, ReduceOp::opaque(&handle)); });
  }
  view.opaque = nullptr;  // says opaque, but not what
  expect_refused(group, usage, "broadcast", [&] { group.broadcast(view, 0); }, {"opaque"});
}

RANK_TEST(BadInput, ExplainRefusesWhatRunRefuses) {
  ProcessGroup& group = world.group();
  Buffer four(DataType::int32, 4);
  Buffer five(DataType::int32, 5);
  expect_error(usage, [&] { group.explain(Request::all_reduce(four.view(), five.view())); });
  const Explanation why = group.explain(Request::all_reduce(four.view(), four.view()));
  EXPECT_FALSE(why.path.empty());
  EXPECT_FALSE(why.algorithm.empty());
  EXPECT_FALSE(why.candidates.empty());
  for (const Candidate& candidate : why.candidates)
    EXPECT_EQ(candidate.can_run, candidate.reason.empty()) << candidate.algorithm;
}

}  // namespace
}  // namespace hymn::test
