// What hymn adds to plain MPI: to all_reduces over the path "mpi", which makes the same calls, and
// to the start of a job.
//
//   scripts/mpirun -n 2 build/bin/bench_overhead [single|funneled|serialized|multiple]
//
// The argument is the level of thread support asked of MPI (default: single), which costs both
// sides. Plain and hymn's blocks of calls alternate in one run; each block's mean is that of the
// slowest rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "bench/mpi_job.hpp"
#include "bench/turns.hpp"
#include "hymn/hymn.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr std::size_t blocks = 101;
constexpr std::size_t largest_bytes = std::size_t{4} << 20;
constexpr int worlds = 21;
// Long enough never to pass: what counts is that there is one.
constexpr auto deadline = std::chrono::seconds(30);

template <class Plain, class Ours>
void compare(const Job& job, Data& data, Plain&& plain, Ours&& ours) {
  const std::size_t iterations = enough_iterations(job, data, plain);
  time_block(job, data, iterations, ours);
  std::vector<double> plain_means(blocks);
  std::vector<double> our_means(blocks);
  for (std::size_t block = 0; block < blocks; ++block) {
    const bool we_begin = block % 2 == 1;
    if (we_begin) our_means[block] = time_block(job, data, iterations, ours);
    plain_means[block] = time_block(job, data, iterations, plain);
    if (!we_begin) our_means[block] = time_block(job, data, iterations, ours);
  }
  plain_means = job.slowest(std::move(plain_means));
  our_means = job.slowest(std::move(our_means));
  std::vector<double> differences(blocks);
  std::transform(our_means.begin(), our_means.end(), plain_means.begin(), differences.begin(),
                 std::minus<>());
  const BenchTimes p = figures_of(plain_means);
  const BenchTimes h = figures_of(our_means);
  job.print(
      "{:>9} {:>10}  {:>9.3f} {:>9.3f} {:>9.3f}  {:>9.3f} {:>9.3f} {:>9.3f}  {:>8.3f}  {:>6.3f}\n",
      data.in.size() * sizeof(float), iterations, p.median, p.min, p.max, h.median, h.min, h.max,
      figures_of(differences).median, h.median / p.median);
}

template <class Row>
void table(const Job& job, std::string_view title, Row&& row) {
  job.print("\n{}\n{:>9} {:>10}  {:^29}  {:^29}  {:>8}  {:>6}\n", title, "", "", "plain MPI, us",
            "hymn, us", "added", "");
  job.print("{:>9} {:>10}  {:>9} {:>9} {:>9}  {:>9} {:>9} {:>9}  {:>8}  {:>6}\n", "bytes",
            "iterations", "median", "min", "max", "median", "min", "max", "us", "ratio");
  for (std::size_t bytes = sizeof(float); bytes <= largest_bytes; bytes *= 4) {
    Data data(bytes);
    row(data);
  }
}

void all_reduce_tables(const Job& job) {
  // Without shared memory in the world MPI's blocking calls are made where the limit is none.
  World world = world_from_communicator(job.communicator(), {.path = "mpi"});
  const std::vector<int> ranks = world.group().membership().ranks;
  ProcessGroup unlimited = world.new_group(ranks, {.timeout = Timeout::none()});
  ProcessGroup limited = world.new_group(ranks, {.timeout = deadline});
  const auto plain = [&](Data& data) {
    MPI_Allreduce(data.in.data(), data.out.data(), data.count(), MPI_FLOAT, MPI_SUM,
                  job.communicator());
  };
  const auto plain_tested = [&](Data& data) {
    MPI_Request request;
    MPI_Iallreduce(data.in.data(), data.out.data(), data.count(), MPI_FLOAT, MPI_SUM,
                   job.communicator(), &request);
    for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  };
  table(job, "all_reduce, timeout none, against MPI_Allreduce", [&](Data& data) {
    compare(job, data, [&] { plain(data); }, [&] { unlimited.all_reduce(data.in, data.out); });
  });
  table(job, "all_reduce, timeout 30 s, against MPI_Iallreduce and MPI_Test", [&](Data& data) {
    compare(job, data, [&] { plain_tested(data); }, [&] { limited.all_reduce(data.in, data.out); });
  });
  table(job, "all_reduce_async and Work::wait, timeout 30 s, against the same", [&](Data& data) {
    compare(
        job, data, [&] { plain_tested(data); },
        [&] { limited.all_reduce_async(data.in, data.out).wait(); });
  });
}

void cost_of_a_world(const Job& job) {
  std::vector<double> milliseconds;
  for (int i = 0; i < worlds; ++i) {
    job.meet();
    const auto begin = Clock::now();
    World world = world_from_communicator(job.communicator());
    world.destroy();
    milliseconds.push_back(microseconds(Clock::now() - begin) / 1000);
  }
  milliseconds = job.slowest(std::move(milliseconds));
  const double first = milliseconds.front();
  milliseconds.erase(milliseconds.begin());
  const BenchTimes later = figures_of(milliseconds);
  job.print(
      "\nmaking and destroying a world of {} ranks, after MPI_Init: the first {:.3f} ms, then "
      "median {:.3f} ms (min {:.3f}, max {:.3f})\n",
      job.size(), first, later.median, later.min, later.max);
}

int run(int argc, char** argv) {
  constexpr std::array names{"single", "funneled", "serialized", "multiple"};
  constexpr std::array levels{MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                              MPI_THREAD_MULTIPLE};
  const auto name =
      std::find(names.begin(), names.end(), std::string_view(argc > 1 ? argv[1] : names.front()));
  if (name == names.end() || argc > 2) {
    fmt::print(stderr, "usage: bench_overhead [single|funneled|serialized|multiple]\n");
    return 2;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, levels[static_cast<std::size_t>(name - names.begin())], &provided);
  {
    const Job job(MPI_COMM_WORLD);
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::string_view library = text.data();
    job.print("# hymn {}, {} ranks, threads: {}, {}\n", version(), job.size(), *name,
              library.substr(0, library.find(',')));
    job.print("# float32 sum, out of place; {} alternating blocks of each side\n", blocks);
    cost_of_a_world(job);
    all_reduce_tables(job);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) { return hymn::run(argc, argv); }
