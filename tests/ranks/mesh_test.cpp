// Grids of ranks, and what names a group.
#include <algorithm>
#include <thread>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using Rows = std::vector<std::vector<int>>;

void expect_expanded(const ExpandedGroup& group, const std::string& tag,
                     const std::vector<int>& ranks, std::size_t size) {
  EXPECT_EQ(group.tag, tag);
  EXPECT_EQ(group.ranks, ranks);
  EXPECT_EQ(group.size, size);
}

bool are_one(const ProcessGroup& one, const ProcessGroup& other) {
  return one.valid() && other.valid() && one.membership().uid == other.membership().uid;
}

/// The even number of ranks up to which there is a mesh of two columns.
int even_ranks(const World& world) { return world.size() / 2 * 2; }

/// Of so many ranks, in rows of two; the last rank may be outside.
Mesh pairs(World& world) {
  std::vector<int> ranks = everybody(world);
  ranks.resize(static_cast<std::size_t>(even_ranks(world)));
  return {world, {ranks.size() / 2, 2}, {"dp", "tp"}, ranks};
}

// --- As torch.distributed does it.

RANK_TEST(Expand, test_expand_1d_rank_list) {
  const std::vector<int> ranks = {0, 1, 2, 3};
  expect_expanded(expand_group(ranks), "", ranks, 4);
  expect_expanded(expand_group(ranks, "bla"), "bla", ranks, 4);
}

RANK_TEST(Expand, test_expand_2d_rank_list) {
  expect_expanded(expand_group(Rows{{0, 1}, {2, 3}}), "", {0, 1, 2, 3}, 2);
  expect_expanded(expand_group(Rows{{0, 1}, {2, 3}}, "blu"), "blu", {0, 1, 2, 3}, 2);
  expect_error(ErrorKind::usage, [] { (void)expand_group(Rows{{0}, {1, 2, 3}}); },
               {"group sizes must be identical"});
}

RANK_TEST(Expand, test_expand_process_group) {
  const std::vector<int> all = everybody(world);
  const ProcessGroup& of_all = world.group();
  expect_expanded(expand_group(of_all), of_all.membership().tag, all, all.size());
  expect_expanded(expand_group(of_all, "bla"), "bla", all, all.size());
  const ProcessGroup untagged = fresh_group(world);
  expect_expanded(expand_group(untagged), untagged.membership().tag, all, all.size());
  ProcessGroup own;
  for (int rank = 0; rank < world.size(); ++rank) {
    const ProcessGroup one = world.new_group({rank}, {.tag = "my_pg"});
    if (rank == world.rank()) own = one;
  }
  expect_expanded(expand_group(own), "my_pg", {world.rank()}, 1);
  expect_expanded(expand_group(own, "bla"), "bla", {world.rank()}, 1);
}

RANK_TEST(Expand, test_expand_device_mesh) {
  const Mesh mesh(world, {ranks_as_size(world)});
  expect_expanded(expand_group(mesh), mesh.group(0).membership().tag, everybody(world),
                  ranks_as_size(world));
}

RANK_TEST(Expand, test_expand_device_mesh_tuple) {
  NEEDS_RANKS(4);
  const int rank = world.rank();
  if (rank >= 4) return;
  const Mesh mesh(world, {2, 2}, {}, {0, 1, 2, 3});
  expect_error(ErrorKind::usage, [&] { (void)expand_group(mesh); }, {"Only 1D mesh"});
  expect_expanded(expand_group(mesh, 0), mesh.group(0).membership().tag, {rank % 2, rank % 2 + 2},
                  2);
  expect_expanded(expand_group(mesh, 1), mesh.group(1).membership().tag,
                  {rank / 2 * 2, rank / 2 * 2 + 1}, 2);
  expect_expanded(expand_group(mesh, 1, "bla"), "bla", {rank / 2 * 2, rank / 2 * 2 + 1}, 2);
}

RANK_TEST(Expand, ADimensionIsKnownByItsName) {
  const std::vector<int> all = everybody(world);
  const Mesh mesh(world, {1, all.size()}, {"dp", "tp"});
  expect_expanded(expand_group(mesh, "tp"), mesh.tag(1), all, all.size());
  expect_expanded(expand_group(mesh, "dp"), mesh.tag(0), {world.rank()}, 1);
  expect_expanded(expand_group(mesh, "tp", "bla"), "bla", all, all.size());
  expect_expanded(expand_group(mesh["tp"], "tp"), mesh.tag(1), all, all.size());
  expect_error(ErrorKind::usage, [&] { (void)expand_group(mesh["tp"], "bla"); },
               {"no dimension 'bla'"});
}

// --- Meshes

RANK_TEST(Mesh, KnowsWhereThisRankIs) {
  NEEDS_RANKS(2);
  const Mesh mesh = pairs(world);
  const bool inside = world.rank() < even_ranks(world);
  EXPECT_EQ(mesh.rank("dp"), inside ? world.rank() / 2 : -1);
  EXPECT_EQ(mesh.rank("tp"), inside ? world.rank() % 2 : -1);
  EXPECT_EQ(mesh.rank(1), mesh.rank("tp"));
  if (!inside) {
    EXPECT_TRUE(mesh.place().empty());
    expect_error(ErrorKind::usage, [&] { (void)mesh.group("dp"); }, {"not part of the mesh"});
    expect_error(ErrorKind::usage, [&] { (void)mesh["dp"]; }, {"not part of the mesh"});
    return;
  }
  EXPECT_EQ(mesh.place(), (std::vector<int>{world.rank() / 2, world.rank() % 2}));
  const Mesh columns = mesh["tp"];
  EXPECT_EQ(columns.rank(), world.rank() % 2);
  EXPECT_EQ(columns.ranks(), (std::vector<int>{world.rank() / 2 * 2, world.rank() / 2 * 2 + 1}));
  EXPECT_EQ(columns.names(), std::vector<std::string>{"tp"});
}

RANK_TEST(Mesh, HasAGroupForEachDimension) {
  NEEDS_RANKS(2);
  if (world.rank() >= even_ranks(world)) return;
  const Mesh mesh = pairs(world);
  for (const std::string name : {"dp", "tp"}) {
    ProcessGroup group = mesh.group(name);
    EXPECT_EQ(group.rank(), mesh.rank(name));
    EXPECT_EQ(group.size(), name == "dp" ? even_ranks(world) / 2 : 2);
    expect_group_works(group);
    EXPECT_TRUE(are_one(mesh.group(name), group));
    EXPECT_TRUE(are_one(mesh[name].group(), group)) << "a part has the groups of the whole";
  }
}

RANK_TEST(Mesh, IsFoundByWhatNamesIt) {
  NEEDS_RANKS(2);
  if (world.rank() >= even_ranks(world)) return;
  const Mesh mesh = pairs(world);
  const ExpandedGroup named = expand_group(mesh["tp"]);
  EXPECT_FALSE(world.find_group(named.tag, named.ranks).valid()) << "nobody has asked for it";
  const ProcessGroup made = world.find_or_create_group(named.tag, named.ranks, named.size);
  EXPECT_TRUE(are_one(mesh.group("tp"), made));
}

// Ranks ask for the groups of two meshes in different orders.
RANK_TEST(Mesh, MeshesOfTheSameRanksAreApart) {
  NEEDS_RANKS(2);
  if (!any_thread_may_call()) return;
  const Mesh first(world, {ranks_as_size(world)});
  const Mesh second(world, {ranks_as_size(world)});
  EXPECT_NE(first.tag(0), second.tag(0));
  std::vector<ProcessGroup> groups(2);
  std::thread other([&] { groups[1] = (world.rank() % 2 == 0 ? second : first).group(); });
  groups[0] = (world.rank() % 2 == 0 ? first : second).group();
  other.join();
  if (world.rank() % 2 != 0) std::swap(groups[0], groups[1]);
  for (std::int64_t i = 0; i < 2; ++i) {
    std::int64_t sum = i;
    groups[static_cast<std::size_t>(i)].all_reduce(view_of(sum));
    EXPECT_EQ(sum, i * world.size());
  }
}

RANK_TEST(Mesh, OfThreeDimensions) {
  NEEDS_RANKS(4);
  if (world.rank() >= 4) return;
  const Mesh mesh(world, {2, 1, 2}, {"pp", "dp", "tp"}, {3, 2, 1, 0});
  const int index = 3 - world.rank();
  EXPECT_EQ(mesh.place(), (std::vector<int>{index / 2, 0, index % 2}));
  const std::vector<std::string> outer = {"tp", "pp"};
  const Mesh part = mesh.sub_mesh(outer);
  EXPECT_EQ(part.names(), (std::vector<std::string>{"pp", "tp"}));
  EXPECT_EQ(part.ranks(), mesh.ranks());
  EXPECT_EQ(part["tp"].ranks(), mesh["tp"].ranks());
  EXPECT_TRUE(are_one(part.group("pp"), mesh.group("pp")));
  // Ranks of a group are ascending, places in a mesh as they were given.
  EXPECT_EQ(mesh["pp"].ranks(), (std::vector<int>{index % 2 == 0 ? 3 : 2, index % 2 == 0 ? 1 : 0}));
  expect_group_works(mesh.group("dp"));
}

RANK_TEST(Mesh, BadShapesAreRefused) {
  const std::size_t size = ranks_as_size(world);
  const auto make = [&](std::vector<std::size_t> shape, std::vector<std::string> names,
                        std::vector<int> ranks) {
    return [&world, shape, names, ranks] { const Mesh mesh(world, shape, names, ranks); };
  };
  expect_error(ErrorKind::usage, make({size + 1}, {}, {}), {"do not make a mesh"});
  expect_error(ErrorKind::usage, make({}, {}, {}), {"no dimensions"});
  expect_error(ErrorKind::usage, make({size, 0}, {}, {}), {"do not make a mesh"});
  expect_error(ErrorKind::usage, make({size}, {"a", "b"}, {}), {"2 names", "1 dimension"});
  expect_error(ErrorKind::usage, make({size, 1}, {"a", "a"}, {}), {"different"});
  expect_error(ErrorKind::usage, make({1}, {}, {world.size()}), {"not all in"});
  const Mesh mesh(world, {size, 1}, {"a", "b"});
  expect_error(ErrorKind::usage, [&] { (void)mesh.rank("c"); }, {"no dimension 'c'"});
  expect_error(ErrorKind::usage, [&] { (void)mesh.rank(2); }, {"dimension 2"});
  expect_error(ErrorKind::usage, [&] { (void)mesh.group(); }, {"Only 1D mesh"});
}

}  // namespace
}  // namespace hymn::test
