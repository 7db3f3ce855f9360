// A program at MPI_THREAD_MULTIPLE: each thread has a communicator of its own, all of the same
// ranks, and the threads of different ranks come to their calls in any order.
#include <mpi.h>

#include <atomic>
#include <cstdio>
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

}  // namespace

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int wrong = 0;
  if (level == MPI_THREAD_MULTIPLE) {
    std::vector<MPI_Comm> comms(threads, MPI_COMM_NULL);
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::atomic<int> all_wrong{0};
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back(
          [&, i] { all_wrong += reduce_often(comms[static_cast<std::size_t>(i)], i + 1); });
    for (std::thread& one : running) one.join();
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
    wrong = all_wrong;
  }
  if (wrong != 0) std::printf("%d results are wrong\n", wrong);
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
