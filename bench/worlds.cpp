// What a world costs: the time until a rank has it, and the memory that it touches for it.
//
//   scripts/mpirun -n 4 build/bin/bench_worlds
//
// MPI is there before. The first world of a process, which looks at the machine, is told apart from
// the ten that follow. A time is that of the slowest rank, and so is a rank's memory: pages that
// are dirty, its own and shared ones (/proc/self/smaps_rollup). Other jobs have other first worlds:
// for a median over jobs it is run several times.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include "bench/mpi_job.hpp"
#include "hymn/hymn.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr int later_worlds = 10;
constexpr double kib_of_mb = 1024;

/// In KiB; 0 where the kernel does not tell.
double touched_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  double sum = 0;
  for (std::string name; file >> name;) {
    long kib = 0;
    if ((name == "Private_Dirty:" || name == "Shared_Dirty:") && file >> kib)
      sum += static_cast<double>(kib);
    std::getline(file, name);
  }
  return sum;
}

struct Cost {
  double milliseconds = 0;
  double megabytes = 0;
};

Cost make_world(const Job& job) {
  touched_memory();  // what looking costs is there then
  const double before = touched_memory();
  job.meet();
  const auto began = std::chrono::steady_clock::now();
  const World world;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  const double touched = touched_memory() - before;
  const std::vector<double> slowest = job.slowest({took.count(), touched / kib_of_mb});
  return {slowest[0], slowest[1]};
}

void measure(const Job& job) {
  const Cost first = make_world(job);
  std::vector<double> later;
  for (int i = 0; i < later_worlds; ++i) later.push_back(make_world(job).milliseconds);
  std::sort(later.begin(), later.end());
  job.print(
      "{} ranks: first world {:.2f} ms, {:.2f} MB touched; later ones {:.2f} ms, {:.2f} to "
      "{:.2f}\n",
      job.size(), first.milliseconds, first.megabytes, later[later.size() / 2], later.front(),
      later.back());
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  hymn::measure(hymn::bench::Job(MPI_COMM_WORLD));
  MPI_Finalize();
}
