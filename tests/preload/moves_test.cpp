// Collectives that move data: all forms of buffers, beside MPI's own answers.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>

#include "tests/preload/carried.hpp"

namespace preload_test {
namespace {

/// A type with a gap in each element, one whose order in memory is not that of travel, and a plain
/// one.
class SomeTypes {
 public:
  SomeTypes() {
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {4, 0};
    const MPI_Datatype types[] = {MPI_INT, MPI_INT};
    MPI_Type_create_struct(2, lengths, places, types, &crossed);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    for (MPI_Datatype* type : {&gaps, &crossed, &pair}) MPI_Type_commit(type);
  }
  ~SomeTypes() {
    for (MPI_Datatype* type : {&gaps, &crossed, &pair}) MPI_Type_free(type);
  }
  /// All have two ints an element; ranks take different ones.
  MPI_Datatype of(int rank) const { return rank % 3 == 0 ? gaps : rank % 3 == 1 ? crossed : pair; }

  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Datatype crossed = MPI_DATATYPE_NULL;
  MPI_Datatype pair = MPI_DATATYPE_NULL;
};

/// Memory for elements of any of these types.
std::vector<int> memory(int elements, int rank) {
  return numbers<int>(static_cast<std::size_t>(elements) * 3, rank, 1000);
}

/// In communicators whose ranks come as in MPI_COMM_WORLD, and in others.
class Moves : public ::testing::TestWithParam<std::tuple<int, Order>> {
 protected:
  Moves() : comm(ordered(std::get<Order>(GetParam()))) { warm_up(comm); }
  ~Moves() override { MPI_Comm_free(&comm); }
  MPI_Comm comm;
  const int rank = rank_in(comm);
  const int size = size_of(comm);
  const int count = std::get<int>(GetParam());
  const SomeTypes types;
};

INSTANTIATE_TEST_SUITE_P(Counts, Moves,
                         ::testing::Combine(::testing::Values(1, 7, 5000),
                                            ::testing::Values(Order::of_world, Order::other)));

TEST_P(Moves, Bcast) {
  for (int root = 0; root < size; ++root) {
    std::vector<int> data = memory(count, rank);
    std::vector<int> expected = data;
    expect_carried("MPI_Bcast", comm,
                   [&] { MPI_Bcast(data.data(), count, types.of(rank), root, comm); });
    by_mpi([&](MPI_Request* request) {
      MPI_Ibcast(expected.data(), count, types.of(rank), root, comm, request);
    });
    EXPECT_EQ(data, expected);
  }
}

TEST_P(Moves, BcastFromTheBottom) {
  std::vector<int> data = memory(count, rank);
  std::vector<int> expected = data;
  const auto type_at = [&](const void* where) {
    MPI_Aint address = 0;
    MPI_Get_address(where, &address);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed(1, &count, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
  };
  MPI_Datatype here = type_at(data.data());
  MPI_Datatype there = type_at(expected.data());
  expect_carried("MPI_Bcast", comm, [&] { MPI_Bcast(MPI_BOTTOM, 1, here, 0, comm); });
  by_mpi([&](MPI_Request* request) { MPI_Ibcast(MPI_BOTTOM, 1, there, 0, comm, request); });
  EXPECT_EQ(data, expected);
  MPI_Type_free(&here);
  MPI_Type_free(&there);
}

TEST_P(Moves, GatherAndScatter) {
  for (int root = 0; root < size; ++root)
    for (const bool in_place : {false, true}) {
      const bool alone = in_place && rank == root;
      const std::vector<int> in = memory(count, rank);
      std::vector<int> out = memory(count * size, rank);
      std::vector<int> expected = out;
      expect_carried("MPI_Gather", comm, [&] {
        MPI_Gather(alone ? MPI_IN_PLACE : in.data(), count, types.of(rank), out.data(), count,
                   types.of(rank + 1), root, comm);
      });
      by_mpi([&](MPI_Request* request) {
        MPI_Igather(alone ? MPI_IN_PLACE : in.data(), count, types.of(rank), expected.data(), count,
                    types.of(rank + 1), root, comm, request);
      });
      EXPECT_EQ(out, expected);
      std::vector<int> part = in;
      std::vector<int> expected_part = in;
      expect_carried("MPI_Scatter", comm, [&] {
        MPI_Scatter(out.data(), count, types.of(rank + 1), alone ? MPI_IN_PLACE : part.data(),
                    count, types.of(rank), root, comm);
      });
      by_mpi([&](MPI_Request* request) {
        MPI_Iscatter(out.data(), count, types.of(rank + 1),
                     alone ? MPI_IN_PLACE : expected_part.data(), count, types.of(rank), root, comm,
                     request);
      });
      EXPECT_EQ(part, expected_part);
    }
}

TEST_P(Moves, AllgatherAndAlltoall) {
  for (const bool in_place : {false, true}) {
    const std::vector<int> in = memory(count * size, rank);
    std::vector<int> out = memory(count * size, rank + 1);
    std::vector<int> expected = out;
    const auto check = [&](const char* name, auto call, auto start) {
      expect_carried(name, comm, [&] {
        call(in_place ? MPI_IN_PLACE : in.data(), count, types.of(rank), out.data(), count,
             types.of(rank + 1), comm);
      });
      by_mpi([&](MPI_Request* request) {
        start(in_place ? MPI_IN_PLACE : in.data(), count, types.of(rank), expected.data(), count,
              types.of(rank + 1), comm, request);
      });
      EXPECT_EQ(out, expected) << name;
    };
    check("MPI_Allgather", MPI_Allgather, MPI_Iallgather);
    check("MPI_Alltoall", MPI_Alltoall, MPI_Ialltoall);
  }
}

/// Blocks of different sizes, with gaps between them and in another order than that of ranks.
struct Uneven {
  Uneven(int ranks, auto count_of) {
    int next = 0;
    places.resize(static_cast<std::size_t>(ranks));
    for (int i = 0; i < ranks; ++i) counts.push_back(count_of(i));
    for (int i = ranks - 1; i >= 0; --i) {
      places[static_cast<std::size_t>(i)] = next;
      next += counts[static_cast<std::size_t>(i)] + 1;
    }
    elements = next;
  }
  std::vector<int> counts{};
  std::vector<int> places{};
  int elements = 0;
};

// MPICH's own answer (4.0.2, 5.0.2) is wrong where ranks give types of other extents, for it cuts
// large blocks by these: so each block is broadcast.
TEST_P(Moves, Allgatherv) {
  const auto block_of = [this](std::vector<int>& all, const Uneven& blocks, int of) {
    MPI_Aint low = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(types.of(rank + 1), &low, &extent);
    return reinterpret_cast<std::byte*>(all.data()) +
           blocks.places[static_cast<std::size_t>(of)] * extent;
  };
  const Uneven blocks(size, [&](int i) { return i % 3 == 1 ? 0 : count + i; });
  const int own = blocks.counts[static_cast<std::size_t>(rank)];
  for (const bool in_place : {false, true}) {
    const std::vector<int> in = memory(own, rank);
    std::vector<int> out = memory(blocks.elements, rank + 5);
    std::vector<int> expected = out;
    expect_carried("MPI_Allgatherv", comm, [&] {
      MPI_Allgatherv(in_place ? MPI_IN_PLACE : in.data(), own, types.of(rank), out.data(),
                     blocks.counts.data(), blocks.places.data(), types.of(rank + 1), comm);
    });
    if (!in_place)
      MPI_Sendrecv(in.data(), own, types.of(rank), 0, 0, block_of(expected, blocks, rank), own,
                   types.of(rank + 1), 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    for (int root = 0; root < size; ++root)
      by_mpi([&](MPI_Request* request) {
        MPI_Ibcast(block_of(expected, blocks, root), blocks.counts[static_cast<std::size_t>(root)],
                   types.of(rank + 1), root, comm, request);
      });
    EXPECT_EQ(out, expected);
  }
}

TEST_P(Moves, Alltoallv) {
  const Uneven from(size, [&](int to) { return (rank + 2 * to) % 4 * count; });
  const Uneven into(size, [&](int source) { return (source + 2 * rank) % 4 * count; });
  const std::vector<int> in = memory(from.elements, rank);
  std::vector<int> out = memory(into.elements, rank + 5);
  std::vector<int> expected = out;
  expect_carried("MPI_Alltoallv", comm, [&] {
    MPI_Alltoallv(in.data(), from.counts.data(), from.places.data(), types.of(rank), out.data(),
                  into.counts.data(), into.places.data(), types.of(rank + 1), comm);
  });
  by_mpi([&](MPI_Request* request) {
    MPI_Ialltoallv(in.data(), from.counts.data(), from.places.data(), types.of(rank),
                   expected.data(), into.counts.data(), into.places.data(), types.of(rank + 1),
                   comm, request);
  });
  EXPECT_EQ(out, expected);
}

// Such types are MPI's own, and stay when another is made of them.
TEST_P(Moves, TypesOfFortransPrecision) {
  MPI_Datatype real = MPI_DATATYPE_NULL;
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
  MPI_Datatype both = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, real, &both);
  MPI_Type_commit(&both);
  std::vector<double> data(static_cast<std::size_t>(count) * 2, rank == 0 ? 3 : 0);
  for (const MPI_Datatype type : {both, real})
    expect_carried("MPI_Bcast", comm, [&] { MPI_Bcast(data.data(), count, type, 0, comm); });
  EXPECT_EQ(data[static_cast<std::size_t>(count) - 1], 3);
  MPI_Type_free(&both);
}

// Neither its size nor that of what it moves fits into an int; nothing of it is moved.
TEST_P(Moves, TypesOfMoreThanAnInt) {
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Datatype huge = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(1 << 20, MPI_BYTE, &block);
  MPI_Type_contiguous(4096, block, &huge);
  MPI_Type_commit(&huge);
  const std::vector<int> none(static_cast<std::size_t>(size), 0);
  const auto call = [&] {
    MPI_Alltoallv(nullptr, none.data(), none.data(), huge, nullptr, none.data(), none.data(), huge,
                  comm);
  };
  expect_carried("MPI_Alltoallv", comm, call);
  expect_left("MPI_Bcast", [&] { MPI_Bcast(nullptr, 0, huge, 0, comm); });
  MPI_Type_free(&huge);
  MPI_Type_free(&block);
}

// It is MPI that says so, to the handler of the communicator and nobody else's.
TEST_P(Moves, TypesThatAreNotCommittedAreLeftToMpi) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::vector<int> data(static_cast<std::size_t>(count) * 2, rank == 0 ? 5 : 0);
  expect_left("MPI_Bcast", [&] {
    const int code = MPI_Bcast(data.data(), count, type, 0, comm);
    EXPECT_NE(code, MPI_SUCCESS);
  });
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  MPI_Type_commit(&type);
  expect_carried("MPI_Bcast", comm, [&] { MPI_Bcast(data.data(), count, type, 0, comm); });
  EXPECT_EQ(data.back(), 5);
  MPI_Type_free(&type);
}

TEST_P(Moves, Gatherv) {
  const Uneven blocks(size, [&](int i) { return i % 3 == 1 ? 0 : count + i; });
  const int own = blocks.counts[static_cast<std::size_t>(rank)];
  for (int root = 0; root < size; ++root) {
    const bool in_place = root % 2 == 1 && rank == root;
    const std::vector<int> in = memory(own, rank);
    std::vector<int> out = memory(blocks.elements, rank + 5);
    std::vector<int> expected = out;
    const void* const from = in_place ? MPI_IN_PLACE : in.data();
    expect_carried("MPI_Gatherv", comm, [&] {
      MPI_Gatherv(from, own, types.of(rank), out.data(), blocks.counts.data(), blocks.places.data(),
                  types.of(rank + 1), root, comm);
    });
    by_mpi([&](MPI_Request* request) {
      MPI_Igatherv(from, own, types.of(rank), expected.data(), blocks.counts.data(),
                   blocks.places.data(), types.of(rank + 1), root, comm, request);
    });
    EXPECT_EQ(out, expected);
  }
}

TEST_P(Moves, Scatterv) {
  const Uneven blocks(size, [&](int i) { return i % 3 == 2 ? 0 : count + i; });
  const int own = blocks.counts[static_cast<std::size_t>(rank)];
  for (int root = 0; root < size; ++root) {
    const bool in_place = root % 2 == 1 && rank == root;
    const std::vector<int> in = memory(blocks.elements, rank);
    std::vector<int> out = memory(own, rank + 5);
    std::vector<int> expected = out;
    expect_carried("MPI_Scatterv", comm, [&] {
      MPI_Scatterv(in.data(), blocks.counts.data(), blocks.places.data(), types.of(rank),
                   in_place ? MPI_IN_PLACE : out.data(), own, types.of(rank + 1), root, comm);
    });
    by_mpi([&](MPI_Request* request) {
      MPI_Iscatterv(in.data(), blocks.counts.data(), blocks.places.data(), types.of(rank),
                    in_place ? MPI_IN_PLACE : expected.data(), own, types.of(rank + 1), root, comm,
                    request);
    });
    EXPECT_EQ(out, expected);
  }
}

// The others hear of it from the root, and all leave the call to MPI.
TEST_P(Moves, NegativeCountsOfTheRootAreLeftToMpi) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const std::vector<int> counts(static_cast<std::size_t>(size), -1);
  const std::vector<int> places(counts.size(), 0);
  int value = 0;
  expect_left("MPI_Gatherv", [&] {
    const int code =
        MPI_Gatherv(&rank, 1, MPI_INT, &value, counts.data(), places.data(), MPI_INT, 0, comm);
    EXPECT_EQ(code != MPI_SUCCESS, rank == 0);
  });
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
}  // namespace preload_test
