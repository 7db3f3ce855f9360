// What many small all_reduces cost as one, beside as many calls: docs/performance.md.
//
//   scripts/mpirun -n 2 build/bin/bench_coalesced [calls [bytes]]
//
// Blocks of both sides, and of one all_reduce of as many bytes, take turns; each block's mean is
// that of the slowest rank.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <vector>

#include "bench/mpi_job.hpp"
#include "bench/turns.hpp"
#include "hymn/coalesce.hpp"
#include "hymn/hymn.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr std::size_t blocks = 51;

/// Buffers that do not lie one behind the other.
class Pieces {
 public:
  Pieces(std::size_t calls, std::size_t bytes) : memory_(calls), count_(bytes / sizeof(float)) {
    for (auto& piece : memory_) piece.resize(count_ + 64);
    for (auto& piece : memory_) views_.push_back(BufferView(piece).slice(0, count_));
  }
  std::span<const BufferView> views() const { return views_; }
  void alter(std::size_t iteration) {
    for (auto& piece : memory_) piece.front() = static_cast<float>(iteration % 1024);
  }

 private:
  std::vector<std::vector<float>> memory_;
  std::size_t count_;
  std::vector<BufferView> views_;
};

void measure(const Job& job, std::size_t calls, std::size_t bytes) {
  World world = world_from_communicator(job.communicator());
  ProcessGroup group = world.group();
  Pieces pieces(calls, bytes);
  std::vector<float> large(calls * bytes / sizeof(float));
  const auto one_by_one = [&](std::size_t i) {
    pieces.alter(i);
    for (const BufferView& view : pieces.views()) group.all_reduce(view);
  };
  const auto listed = [&](std::size_t i) {
    pieces.alter(i);
    group.all_reduce_coalesced(pieces.views());
  };
  const auto scoped = [&](std::size_t i) {
    pieces.alter(i);
    coalesce(group, [&] {
      for (const BufferView& view : pieces.views()) group.all_reduce(view);
    });
  };
  const auto whole = [&](std::size_t i) {
    pieces.alter(i);
    group.all_reduce(large);
  };
  constexpr std::size_t iterations = 30;
  std::vector<double> times[4];
  for (std::size_t block = 0; block < blocks; ++block) {
    times[0].push_back(time_calls(job, iterations, one_by_one));
    times[1].push_back(time_calls(job, iterations, listed));
    times[2].push_back(time_calls(job, iterations, scoped));
    times[3].push_back(time_calls(job, iterations, whole));
  }
  constexpr const char* names[] = {"one by one", "all_reduce_coalesced", "coalesce()", "one call"};
  double base = 0;
  for (std::size_t side = 0; side < 4; ++side) {
    const BenchTimes t = figures_of(job.slowest(std::move(times[side])));
    if (side == 0) base = t.median;
    job.print("{:<22} {:>9.2f} {:>9.2f} {:>9.2f}  {:>6.3f}\n", names[side], t.median, t.min, t.max,
              t.median / base);
  }
}

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Job job(MPI_COMM_WORLD);
    const std::size_t calls = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64;
    const std::size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
    job.print("# hymn {}, {} ranks: {} all_reduces of {} bytes, float32 sum in place; us\n",
              version(), job.size(), calls, bytes);
    job.print("{:<22} {:>9} {:>9} {:>9}  {:>6}\n", "", "median", "min", "max", "ratio");
    measure(job, calls, bytes);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) { return hymn::run(argc, argv); }
