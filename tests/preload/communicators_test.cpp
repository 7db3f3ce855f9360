// Communicators of all kinds, and what a rank that waits for hymn still does for MPI.
#include <algorithm>

#include "tests/preload/carried.hpp"

namespace preload_test {
namespace {

int sum_in(MPI_Comm comm) {
  int sum = 0;
  const int one = rank_in(comm) + 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

int expected_sum(MPI_Comm comm) { return size_of(comm) * (size_of(comm) + 1) / 2; }

TEST(Communicators, TheThirdCollectiveIsCarried) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 2; ++i)
    expect_left("MPI_Allreduce", [&] { EXPECT_EQ(sum_in(comm), expected_sum(comm)); });
  expect_carried("MPI_Allreduce", comm, [&] { EXPECT_EQ(sum_in(comm), expected_sum(comm)); });
  MPI_Comm_free(&comm);
}

TEST(Communicators, ComeAndGo) {
  const int rank = rank_in(MPI_COMM_WORLD);
  for (int round = 0; round < 60; ++round) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, (rank >> round % 3) & 1, rank, &comm);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sum_in(comm), expected_sum(comm));
    expect_carried("MPI_Allreduce", comm, [&] { EXPECT_EQ(sum_in(comm), expected_sum(comm)); });
    MPI_Comm_free(&comm);
  }
}

/// An error handler that frees the communicator in which the error was.
MPI_Comm to_be_freed = MPI_COMM_NULL;
void free_it(MPI_Comm*, int*, ...) { MPI_Comm_free(&to_be_freed); }

TEST(Communicators, MayBeFreedByTheirErrorHandlers) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(free_it, &handler);
  for (const bool is_carried : {false, true}) {
    MPI_Comm_dup(MPI_COMM_WORLD, &to_be_freed);
    MPI_Comm_set_errhandler(to_be_freed, handler);
    const MPI_Comm comm = to_be_freed;
    if (is_carried) warm_up(comm);
    int value = 0;
    EXPECT_NE(MPI_Bcast(&value, 1, MPI_INT, size_of(comm), comm), MPI_SUCCESS);
    EXPECT_EQ(to_be_freed, MPI_COMM_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Errhandler_free(&handler);
}

TEST(Communicators, SeveralAtOnce) {
  const int rank = rank_in(MPI_COMM_WORLD);
  std::vector<MPI_Comm> comms(6, MPI_COMM_NULL);
  for (std::size_t i = 0; i < comms.size(); ++i)
    MPI_Comm_split(MPI_COMM_WORLD, rank % (static_cast<int>(i) + 1), rank, &comms[i]);
  for (int round = 0; round < 5; ++round)
    for (const MPI_Comm comm : comms) EXPECT_EQ(sum_in(comm), expected_sum(comm));
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

// MPI calls that unsafe; but what is sent on one is never taken for what is sent on the other.
TEST(Communicators, OfTheSameRanksKeepTheirCallsApart) {
  MPI_Comm one = MPI_COMM_NULL;
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &one);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  warm_up(one);
  warm_up(other);
  const bool is_root = rank_in(one) == 0;
  int first = is_root ? 1 : 0;
  int second = is_root ? 2 : 0;
  expect_carried("MPI_Bcast", one, [&] {
    MPI_Bcast(is_root ? &first : &second, 1, MPI_INT, 0, is_root ? one : other);
  });
  MPI_Bcast(is_root ? &second : &first, 1, MPI_INT, 0, is_root ? other : one);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  MPI_Comm_free(&one);
  MPI_Comm_free(&other);
}

// No buffer to receive in: that is MPI's to say.
TEST(Communicators, ErrorsOfArgumentsAreMpis) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  warm_up(comm);
  int error_class = MPI_SUCCESS;
  expect_left("MPI_Allgather", [&] {
    MPI_Error_class(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm),
                    &error_class);
  });
  EXPECT_NE(error_class, MPI_SUCCESS);
  MPI_Comm_free(&comm);
}

TEST(Communicators, RanksInAnotherOrder) {
  MPI_Comm comm = ordered(Order::other);
  warm_up(comm);
  const int size = size_of(comm);
  const int own = rank_in(comm);
  std::vector<int> ranks(static_cast<std::size_t>(size), -1);
  expect_carried("MPI_Allgather", comm,
                 [&] { MPI_Allgather(&own, 1, MPI_INT, ranks.data(), 1, MPI_INT, comm); });
  EXPECT_TRUE(std::ranges::is_sorted(ranks));
  expect_carried("MPI_Allreduce", comm, [&] { EXPECT_EQ(sum_in(comm), expected_sum(comm)); });
  for (int root = 0; root < size; ++root) {
    int value = own == root ? root + 1 : -1;
    expect_carried("MPI_Bcast", comm, [&] { MPI_Bcast(&value, 1, MPI_INT, root, comm); });
    EXPECT_EQ(value, root + 1);
    int most = -1;
    expect_carried("MPI_Reduce", comm,
                   [&] { MPI_Reduce(&own, &most, 1, MPI_INT, MPI_MAX, root, comm); });
    EXPECT_EQ(most, own == root ? size - 1 : -1);
  }
  MPI_Comm_free(&comm);
}

// The last of two that have a number: it does not commute.
void take_later(void* in, void* inout, int* count, MPI_Datatype*) {
  const int* const lower = static_cast<const int*>(in);
  int* const higher = static_cast<int*>(inout);
  for (int i = 0; i < *count; ++i)
    if (higher[i] == 0) higher[i] = lower[i];
}

// What depends on the order of ranks is then MPI's.
TEST(Communicators, ReductionsThatNeedAnotherOrder) {
  MPI_Comm comm = ordered(Order::other);
  warm_up(comm);
  const int size = size_of(comm);
  const int rank = rank_in(comm);
  MPI_Op later = MPI_OP_NULL;
  MPI_Op_create(take_later, 0, &later);
  const int given = rank + 1;
  int result = 0;
  const auto reduce = [&] { MPI_Allreduce(&given, &result, 1, MPI_INT, later, comm); };
  const auto scan = [&] { MPI_Scan(&given, &result, 1, MPI_INT, MPI_SUM, comm); };
  if (size == 1) {
    reduce();
    scan();
  } else {
    expect_left("MPI_Allreduce", reduce);
    EXPECT_EQ(result, size);
    expect_left("MPI_Scan", scan);
    EXPECT_EQ(result, given * (given + 1) / 2);
  }
  std::vector<int> in(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i) * 10 + rank;
  expect_carried("MPI_Reduce_scatter_block", comm,
                 [&] { MPI_Reduce_scatter_block(in.data(), &result, 1, MPI_INT, MPI_SUM, comm); });
  EXPECT_EQ(result, rank * 10 * size + size * (size - 1) / 2);
  const std::vector<int> ones(in.size(), 1);
  result = -1;
  expect_carried("MPI_Reduce_scatter", comm, [&] {
    MPI_Reduce_scatter(in.data(), &result, ones.data(), MPI_INT, MPI_SUM, comm);
  });
  EXPECT_EQ(result, rank * 10 * size + size * (size - 1) / 2);
  MPI_Op_free(&later);
  MPI_Comm_free(&comm);
}

// A request keeps what is recorded of its communicator. Open MPI 4.1.4 itself needs the
// communicator until all is through, so the request alone is left open.
TEST(Communicators, FreedBeforeTheWaitForACollective) {
  for (int round = 0; round < 20; ++round) {
    std::vector<MPI_Request> requests(8, MPI_REQUEST_NULL);
    for (MPI_Request& request : requests) {
      MPI_Comm comm = MPI_COMM_NULL;
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      MPI_Ibarrier(comm, &request);
      for (int is_through = 0; is_through == 0;)
        MPI_Request_get_status(request, &is_through, MPI_STATUS_IGNORE);
      MPI_Comm_free(&comm);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
  EXPECT_EQ(sum_in(MPI_COMM_WORLD), expected_sum(MPI_COMM_WORLD));
}

// Messages that have ended at once may share a handle.
TEST(Communicators, ManySmallMessagesInFlight) {
  const int rank = rank_in(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  constexpr int messages = 300;
  std::vector<int> in(messages, rank);
  std::vector<int> out(messages, -1);
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < messages; ++i) {
    const int tag = static_cast<int>(i);
    requests.resize(requests.size() + 2, MPI_REQUEST_NULL);
    MPI_Irecv(&out[i], 1, MPI_INT, (rank + size - 1) % size, tag, MPI_COMM_WORLD, &requests[2 * i]);
    MPI_Isend(&in[i], 1, MPI_INT, (rank + 1) % size, tag, MPI_COMM_WORLD, &requests[2 * i + 1]);
  }
  MPI_Waitall(2 * messages, requests.data(), MPI_STATUSES_IGNORE);
  EXPECT_EQ(out, std::vector<int>(messages, (rank + size - 1) % size));
}

// Nobody is asked: what is not plain is MPI's.
TEST(Communicators, OneRankAlone) {
  const MPI_Comm self = MPI_COMM_SELF;
  if (size_of(MPI_COMM_WORLD) == 1) GTEST_SKIP() << "hymn carries nothing for a job of one rank";
  const int given[2] = {3, 4};
  const int one = 1;
  const int none = 0;
  int got[2] = {};
  const auto expect_got = [&](const std::string& name, auto call) {
    got[0] = got[1] = 0;
    expect_carried(name, self, call);
    EXPECT_EQ(got[0], 3) << name;
  };
  expect_got("MPI_Allreduce", [&] { MPI_Allreduce(given, got, 2, MPI_INT, MPI_SUM, self); });
  EXPECT_EQ(got[1], 4);
  expect_got("MPI_Reduce", [&] { MPI_Reduce(given, got, 1, MPI_INT, MPI_BXOR, 0, self); });
  expect_got("MPI_Scan", [&] { MPI_Scan(given, got, 1, MPI_INT, MPI_MAX, self); });
  expect_got("MPI_Gather", [&] { MPI_Gather(given, 1, MPI_INT, got, 1, MPI_INT, 0, self); });
  expect_got("MPI_Gatherv",
             [&] { MPI_Gatherv(given, 1, MPI_INT, got, &one, &none, MPI_INT, 0, self); });
  expect_got("MPI_Scatter", [&] { MPI_Scatter(given, 1, MPI_INT, got, 1, MPI_INT, 0, self); });
  expect_got("MPI_Scatterv",
             [&] { MPI_Scatterv(given, &one, &none, MPI_INT, got, 1, MPI_INT, 0, self); });
  expect_got("MPI_Allgather", [&] { MPI_Allgather(given, 1, MPI_INT, got, 1, MPI_INT, self); });
  expect_got("MPI_Allgatherv",
             [&] { MPI_Allgatherv(given, 1, MPI_INT, got, &one, &none, MPI_INT, self); });
  expect_got("MPI_Alltoall", [&] { MPI_Alltoall(given, 1, MPI_INT, got, 1, MPI_INT, self); });
  expect_got("MPI_Alltoallv",
             [&] { MPI_Alltoallv(given, &one, &none, MPI_INT, got, &one, &none, MPI_INT, self); });
  expect_got("MPI_Reduce_scatter",
             [&] { MPI_Reduce_scatter(given, got, &one, MPI_INT, MPI_SUM, self); });
  expect_got("MPI_Reduce_scatter_block",
             [&] { MPI_Reduce_scatter_block(given, got, 1, MPI_INT, MPI_SUM, self); });
  expect_carried("MPI_Barrier", self, [&] { MPI_Barrier(self); });
  expect_carried("MPI_Bcast", self, [&] { MPI_Bcast(got, 1, MPI_INT, 0, self); });
  // In place, and at a place.
  got[0] = 7;
  expect_carried("MPI_Allreduce", self,
                 [&] { MPI_Allreduce(MPI_IN_PLACE, got, 1, MPI_INT, MPI_SUM, self); });
  EXPECT_EQ(got[0], 7);
  MPI_Gatherv(given, 1, MPI_INT, got, &one, &one, MPI_INT, 0, self);
  EXPECT_EQ(got[0], 7);
  EXPECT_EQ(got[1], 3);
}

// What MPI refuses on one rank alone does not count there: ranks would not agree on which
// collective of the communicator is the third.
TEST(Communicators, WhatOneRankAloneIsRefusedDoesNotCount) {
  for (int before = 0; before < 4; ++before) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < before; ++i) EXPECT_EQ(sum_in(comm), expected_sum(comm));
    int value = 0;
    if (rank_in(comm) == 0) {
      EXPECT_NE(MPI_Bcast(&value, -1, MPI_INT, 0, comm), MPI_SUCCESS);
      EXPECT_NE(MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, comm), MPI_SUCCESS);
      EXPECT_NE(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, comm), MPI_SUCCESS);
      EXPECT_NE(MPI_Reduce(&value, &value, 1, MPI_INT, MPI_SUM, -3, comm), MPI_SUCCESS);
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(sum_in(comm), expected_sum(comm));
    MPI_Comm_free(&comm);
  }
}

TEST(Communicators, ErrorsOfOneRankAreMpis) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  double value = 1;
  expect_left("MPI_Allreduce", [&] {
    EXPECT_NE(MPI_Allreduce(&value, &value, -1, MPI_DOUBLE, MPI_SUM, comm), MPI_SUCCESS);
  });
  double other = 0;
  expect_left("MPI_Allreduce", [&] {
    EXPECT_NE(MPI_Allreduce(&value, &other, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_SUCCESS);
  });
  expect_left("MPI_Bcast",
              [&] { EXPECT_NE(MPI_Bcast(&value, 1, MPI_DOUBLE, 1, comm), MPI_SUCCESS); });
  MPI_Comm_free(&comm);
}

TEST(Communicators, IntercommunicatorsAreLeftToMpi) {
  const int rank = rank_in(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  if (size < 2) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &between);
  for (int i = 0; i < 4; ++i) {
    int one = 1;
    int sum = 0;
    expect_left("MPI_Allreduce", [&] { MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between); });
    EXPECT_EQ(sum, rank == 0 ? size - 1 : 1);
  }
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

// A long message needs both sides until it is through; the receiver is in a collective that the
// sender comes to only then.
TEST(Progress, MessagesGoOnWhileARankWaitsForHymn) {
  warm_up(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  if (size_of(MPI_COMM_WORLD) < 2) return;
  std::vector<int> data(1 << 20, rank);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Irecv(data.data(), 1 << 20, MPI_INT, 1, 3, MPI_COMM_WORLD, &request);
  if (rank == 1) MPI_Ssend(data.data(), 1 << 20, MPI_INT, 0, 3, MPI_COMM_WORLD);
  expect_carried("MPI_Barrier", MPI_COMM_WORLD, [] { MPI_Barrier(MPI_COMM_WORLD); });
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(data.back(), rank == 0 ? 1 : rank);
}

TEST(Progress, WindowsGoOnWhileARankWaitsForHymn) {
  warm_up(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  int* memory = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  // Open MPI 4.1 has no windows over TCP alone.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int made =
      MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  if (made != MPI_SUCCESS) GTEST_SKIP() << "this MPI has no windows here";
  *memory = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const int one = 1;
  for (int i = 0; i < 20 && rank != 0; ++i) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    EXPECT_EQ(*memory, 20 * (size_of(MPI_COMM_WORLD) - 1));
  }
  MPI_Win_free(&window);
}

}  // namespace
}  // namespace preload_test
