// A program at MPI_THREAD_MULTIPLE: each thread has a communicator of its own, all of the same
// ranks, and the threads of different ranks come to their calls in any order.
#include "tests/preload/carried.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 3;
constexpr int calls = 200;

/// How many results are wrong.
int reduce_often(MPI_Comm comm, int salt) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int wrong = 0;
  for (int i = 0; i < calls; ++i) {
    const int mine = rank + salt * i;
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != size * (size - 1) / 2 + size * salt * i) ++wrong;
  }
  return wrong;
}

/// All threads meet communicators that no call has been made of, at the same time.
void meet_together() {
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    std::atomic<int> ready{0};
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([&, i] {
        ++ready;
        while (ready != threads) {
        }
        int value = i;
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        MPI_Sendrecv_replace(&value, 1, MPI_INT, rank, i, rank, i, comm, MPI_STATUS_IGNORE);
      });
    for (std::thread& one : running) one.join();
    MPI_Comm_free(&comm);
  }
}

std::ptrdiff_t mappings() {
  std::ifstream file("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

/// More groups at once than are kept without use, of other ranks in each round. How much memory
/// those that have ended hold.
std::ptrdiff_t come_and_go() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::ptrdiff_t before = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<MPI_Comm> comms(80, MPI_COMM_NULL);
    for (MPI_Comm& comm : comms) {
      MPI_Comm_split(MPI_COMM_WORLD, rank == round % 3 ? 1 : 0, rank, &comm);
      for (int i = 0; i < 4; ++i) MPI_Barrier(comm);
    }
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
    if (round == 2) before = mappings();
  }
  return mappings() - before;
}

}  // namespace

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int wrong = 0;
  if (level == MPI_THREAD_MULTIPLE) {
    std::vector<MPI_Comm> comms(threads, MPI_COMM_NULL);
    // Of the same ranks, in one order and in another.
    for (std::size_t i = 0; i < comms.size(); ++i)
      comms[i] = preload_test::ordered(i % 2 == 0 ? preload_test::Order::of_world
                                                  : preload_test::Order::other);
    std::atomic<int> all_wrong{0};
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back(
          [&, i] { all_wrong += reduce_often(comms[static_cast<std::size_t>(i)], i + 1); });
    for (std::thread& one : running) one.join();
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
    wrong = all_wrong;
    // All but the first two of each communicator.
    const long long by_hymn = preload_test::carried("MPI_Allreduce");
    if (by_hymn != threads * (calls - 2)) {
      std::printf("hymn has carried %lld calls\n", by_hymn);
      ++wrong;
    }
    meet_together();
    if (const std::ptrdiff_t more = come_and_go(); more > 30) {
      std::printf("groups that have ended hold %td mappings\n", more);
      ++wrong;
    }
  }
  if (wrong != 0) std::printf("%d things are wrong\n", wrong);
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
