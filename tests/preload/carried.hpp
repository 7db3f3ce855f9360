// How a test of the preload sees who has carried its calls, and what MPI itself would have
// answered.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace preload_test {

inline int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

enum class Order { of_world, other };

/// A communicator of all ranks, in this order; with few ranks their order is turned round.
inline MPI_Comm ordered(Order order) {
  MPI_Comm made = MPI_COMM_NULL;
  const int rank = rank_in(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  const int turned = size < 4 ? -rank : (rank * 3 + 5) % size;
  MPI_Comm_split(MPI_COMM_WORLD, 0, order == Order::of_world ? rank : turned, &made);
  return made;
}

/// Calls of this rank that hymn has carried.
inline long long carried(const std::string& call) {
  using Query = long long(const char*);
  auto* const query = reinterpret_cast<Query*>(::dlsym(RTLD_DEFAULT, "hymnPreloadCarried"));
  return query == nullptr ? -1 : query(call.c_str());
}

/// After the first two collectives of a communicator hymn may carry them.
inline void warm_up(MPI_Comm comm) {
  for (int i = 0; i < 3; ++i) MPI_Barrier(comm);
}

/// `call()` is carried by hymn.
template <class Do>
void expect_carried(const std::string& name, MPI_Comm comm, Do call) {
  const long long before = carried(name);
  call();
  EXPECT_EQ(carried(name) - before, 1) << name << " of " << size_of(comm) << " ranks";
}

/// `call()` is left to MPI.
template <class Do>
void expect_left(const std::string& name, Do call) {
  const long long before = carried(name);
  call();
  EXPECT_EQ(carried(name), before) << name;
}

/// Waits for what `start(request)` has started: nonblocking collectives are always MPI's.
template <class Start>
void by_mpi(Start start) {
  MPI_Request request = MPI_REQUEST_NULL;
  start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

using Bytes = std::vector<std::byte>;

/// Numbers that all sums and products of few of them are exact of, another for each rank and place.
template <class T>
std::vector<T> numbers(std::size_t count, int rank, int most = 7) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = static_cast<T>((static_cast<std::size_t>(rank) * 3 + i * 5 + 1) %
                             static_cast<std::size_t>(most));
  return made;
}

}  // namespace preload_test
