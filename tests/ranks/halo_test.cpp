// Neighbours in a mesh, and the halos that they exchange.
#include <array>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/ring.hpp"

namespace hymn::test {
namespace {

/// The faces and halos of one rank in one dimension, each of another size.
struct Faces {
  static constexpr std::size_t to_previous = 5;
  static constexpr std::size_t to_next = 3;

  explicit Faces(int rank, int salt = 0)
      : previous_face(filled(DataType::float64, to_previous, rank, salt + 1)),
        next_face(filled(DataType::float64, to_next, rank, salt + 2)),
        previous_halo(DataType::float64, to_next),
        next_halo(DataType::float64, to_previous) {}

  Halo in(std::size_t dimension, bool periodic) {
    return {dimension, previous_face, previous_halo, next_face, next_halo, periodic};
  }
  /// What has come, from whom there is.
  void expect(std::optional<int> previous, std::optional<int> next, int salt = 0) const {
    if (previous)
      expect_filled(previous_halo, *previous, salt + 2);
    else
      expect_untouched(previous_halo);
    if (next)
      expect_filled(next_halo, *next, salt + 1);
    else
      expect_untouched(next_halo);
    EXPECT_TRUE(previous_halo.guards_intact() && next_halo.guards_intact());
  }

  Buffer previous_face, next_face, previous_halo, next_halo;
};

RANK_TEST(P2pHalo, NeighboursInALine) {
  const Mesh line(world, {as_size(world.size())});
  const int last = world.size() - 1;
  EXPECT_EQ(line.neighbour(0, 0), world.rank());
  EXPECT_EQ(line.neighbour(0, 1),
            world.rank() < last ? std::optional(world.rank() + 1) : std::nullopt);
  EXPECT_EQ(line.neighbour(0, -1),
            world.rank() > 0 ? std::optional(world.rank() - 1) : std::nullopt);
  EXPECT_EQ(line.neighbour(0, 1, true), next_of(world));
  EXPECT_EQ(line.neighbour(0, -1, true), previous_of(world));
  EXPECT_EQ(line.neighbour(0, 3 * world.size() + 1, true), next_of(world));
  EXPECT_EQ(line.neighbour(0, -2 * world.size() - 1, true), previous_of(world));
  expect_error(ErrorKind::usage, [&] { (void)line.neighbour(1, 1); }, {"dimension 1"});
}

RANK_TEST(P2pHalo, NeighboursInAGrid) {
  NEEDS_RANKS(4);
  // The ranks stand the other way round, so that places and ranks differ.
  const Mesh grid(world, {2, 2}, {"y", "x"}, {3, 2, 1, 0});
  if (world.rank() >= 4) {
    expect_error(ErrorKind::usage, [&] { (void)grid.neighbour(0, 1); }, {"not part of the mesh"});
    return;
  }
  EXPECT_EQ(grid.neighbour(1, 1, true), world.rank() ^ 1);
  EXPECT_EQ(grid.neighbour(0, 1, true), world.rank() ^ 2);
  EXPECT_EQ(grid.neighbour(1, 1),
            world.rank() % 2 == 1 ? std::optional(world.rank() - 1) : std::nullopt);
  EXPECT_EQ(grid["x"].neighbour(0, 1), grid.neighbour(1, 1));
}

RANK_TEST(P2pHalo, InALineWithEdges) {
  const Mesh line(world, {as_size(world.size())});
  for (int round = 0; round < 3; ++round) {
    Faces faces(world.rank(), round);
    const Halo halo = faces.in(0, false);
    line.exchange_halos({&halo, 1});
    faces.expect(line.neighbour(0, -1), line.neighbour(0, 1), round);
  }
}

RANK_TEST(P2pHalo, InARing) {
  const Mesh ring(world, {as_size(world.size())});
  for (int round = 0; round < 3; ++round) {
    Faces faces(world.rank(), round);
    const Halo halo = faces.in(0, true);
    ring.exchange_halos({&halo, 1});
    // Of two ranks each is on both sides of the other; one alone is its own neighbour.
    faces.expect(previous_of(world), next_of(world), round);
  }
}

RANK_TEST(P2pHalo, AllDimensionsAsOneWork) {
  // As many rows of two as there are; of one rank a grid of one place.
  const std::size_t columns = world.size() > 1 ? 2 : 1;
  std::vector<int> ranks = everybody(world);
  ranks.resize(ranks.size() / columns * columns);
  const Mesh grid(world, {ranks.size() / columns, columns, 1}, {"y", "x", "z"}, ranks);
  if (grid.place().empty()) return;
  Faces y(world.rank(), 10);
  Faces x(world.rank(), 20);
  Faces z(world.rank(), 30);
  const std::array halos = {y.in(0, false), x.in(1, true), z.in(2, true)};
  Work work = grid.exchange_halos_async(halos);
  work.wait();
  EXPECT_EQ(work.type(), OpType::batch);
  y.expect(grid.neighbour(0, -1), grid.neighbour(0, 1), 10);
  x.expect(grid.neighbour(1, -1, true), grid.neighbour(1, 1, true), 20);
  z.expect(world.rank(), world.rank(), 30);
  grid.halo_group().barrier();
}

RANK_TEST(P2pHalo, TheOwnMessagesOfTheProgramDoNotMix) {
  const Mesh ring(world, {as_size(world.size())});
  const std::int32_t out = 7 * world.rank();
  std::int32_t in = -1;
  Work received = ring.group(0).sendrecv_async(view_of(out), next_of(world), 0, view_of(in),
                                               previous_of(world), 0);
  Faces faces(world.rank());
  const Halo halo = faces.in(0, true);
  ring.exchange_halos({&halo, 1});
  faces.expect(previous_of(world), next_of(world));
  received.wait();
  EXPECT_EQ(in, 7 * previous_of(world));
  EXPECT_NE(ring.halo_group().membership().uid, ring.group(0).membership().uid);
}

RANK_TEST(P2pHalo, AWrongDimensionIsRefused) {
  const Mesh ring(world, {as_size(world.size())});
  Faces faces(world.rank());
  const Halo halo = faces.in(1, true);
  expect_error(ErrorKind::usage, [&] { ring.exchange_halos({&halo, 1}); }, {"dimension 1"});
  ring.exchange_halos({});
}

RANK_TEST(P2pHalo, AFaceThatIsTooLongIsAnError) {
  // Of one rank alone, which sees both sides before anything is copied.
  const Mesh alone(world, {1}, {}, {world.rank()});
  Faces faces(world.rank());
  Halo halo = faces.in(0, true);
  halo.from_next = faces.next_halo.slice(0, 2);
  expect_error(ErrorKind::usage, [&] { alone.exchange_halos({&halo, 1}); },
               {"40 bytes", "16 bytes"});
  expect_untouched(faces.next_halo);
  expect_untouched(faces.previous_halo);
}

// Otherwise what is left of it would be taken for what comes later.
RANK_TEST(P2pHalo, AnExchangeThatFailsGivesUpItsGroup) {
  NEEDS_RANKS(2);
  const Mesh ring(world, {as_size(world.size())});
  for (int round = 0; round < 2; ++round) {
    const std::uint64_t uid = ring.halo_group().membership().uid;
    Faces bad(world.rank(), round);
    Halo halo = bad.in(0, true);
    if (world.rank() == 0) {
      halo.from_next = bad.next_halo.slice(0, 2);
      expect_error(ErrorKind::usage, [&] { ring.exchange_halos({&halo, 1}); });
    } else {
      (void)error_text([&] { ring.exchange_halos({&halo, 1}); });
    }
    expect_error(ErrorKind::aborted, [&] { ring.halo_group().barrier(); });
    EXPECT_EQ(ring.halo_group().membership().uid, uid) << "only destroy() makes way for another";
    ring.halo_group().destroy();
    Faces good(world.rank(), round + 1);
    halo = good.in(0, true);
    ring.exchange_halos({&halo, 1});
    good.expect(previous_of(world), next_of(world), round + 1);
    EXPECT_NE(ring.halo_group().membership().uid, uid);
    world.group().barrier();  // nobody still exchanges when the next one fails
  }
  ring.halo_group().barrier();
}

RANK_TEST(P2pHalo, WhatIsRefusedBeforeItStartsGivesUpNothing) {
  const Mesh ring(world, {as_size(world.size())});
  Faces faces(world.rank());
  Halo halo = faces.in(0, true);
  halo.to_next = ConstBufferView(nullptr, 3, DataType::float64);
  expect_error(ErrorKind::usage, [&] { ring.exchange_halos({&halo, 1}); }, {"send"});
  halo = faces.in(0, true);
  ring.exchange_halos({&halo, 1});
  faces.expect(previous_of(world), next_of(world));
}

}  // namespace
}  // namespace hymn::test
