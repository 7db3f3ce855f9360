// What a call that was prepared costs beside the plain one (docs/messages.md): blocking calls of
// 8 bytes. One rank alone waits for nobody, so that all of it is hymn's own time.
//
//   scripts/mpirun -n 1 build/bin/bench_prepared
//   scripts/mpirun -n 2 --bind-to core build/bin/bench_prepared
#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "bench/mpi_job.hpp"
#include "bench/turns.hpp"
#include "hymn/hymn.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr std::size_t blocks = 301;
constexpr std::size_t bytes = 8;
constexpr int tag = 1;

template <class Plain, class Prepared>
void compare(const Job& job, std::string_view what, Plain&& plain, Prepared&& prepared) {
  Data data(bytes);
  const std::size_t iterations = enough_iterations(job, data, plain);
  time_block(job, data, iterations, prepared);
  std::vector<double> plain_means;
  std::vector<double> prepared_means;
  for (std::size_t block = 0; block < blocks; ++block) {
    const bool is_odd = block % 2 == 1;
    if (is_odd) prepared_means.push_back(time_block(job, data, iterations, prepared));
    plain_means.push_back(time_block(job, data, iterations, plain));
    if (!is_odd) prepared_means.push_back(time_block(job, data, iterations, prepared));
  }
  plain_means = job.slowest(std::move(plain_means));
  prepared_means = job.slowest(std::move(prepared_means));
  std::vector<double> ratios;
  for (std::size_t block = 0; block < blocks; ++block)
    ratios.push_back(prepared_means[block] / plain_means[block]);
  const BenchTimes p = figures_of(plain_means);
  const BenchTimes r = figures_of(prepared_means);
  job.print("{:>22}  {:>8.1f} {:>8.1f}  {:>8.1f} {:>8.1f}  {:>6.2f} {:>6.2f}\n", what,
            1e3 * p.median, 1e3 * p.min, 1e3 * r.median, 1e3 * r.min, figures_of(ratios).median,
            r.min / p.min);
}

void compare_collectives(const Job& job, ProcessGroup& group) {
  std::int64_t in = 1;
  std::int64_t out = 0;
  const auto both = [&](std::string_view what, const Request& request) {
    const PreparedCall call = group.prepare(request);
    compare(job, what, [&] { group.run(request); }, [&] { call.run(); });
  };
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  const std::vector<std::size_t> counts(all.size(), 1);
  both("all_reduce", Request::all_reduce(view_of(in), view_of(out)));
  both("broadcast", Request::broadcast(view_of(out), 0));
  both("all_gather", Request::all_gather(view_of(in), OutputBlocks::equal(BufferView(all))));
  both("all_gather, counts",
       Request::all_gather(view_of(in), OutputBlocks::counted(BufferView(all), counts)));
}

/// From one of two ranks to the other and back.
void compare_messages(const Job& job, ProcessGroup& group, int with_tag) {
  std::int64_t value = 1;
  const int peer = job.rank() == 0 ? 1 : 0;
  const Request send = Request::send(view_of(value), peer, with_tag);
  const Request recv = Request::recv(view_of(value), peer, with_tag);
  const PreparedCall sends = group.prepare(send);
  const PreparedCall recvs = group.prepare(recv);
  const auto both = [&](auto&& give, auto&& take) {
    if (job.rank() == 0) give();
    take();
    if (job.rank() == 1) give();
  };
  compare(
      job, with_tag == 0 ? "there and back" : "there and back, tag 1",
      [&] { both([&] { group.run(send); }, [&] { group.run(recv); }); },
      [&] { both([&] { sends.run(); }, [&] { recvs.run(); }); });
}

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Job job(MPI_COMM_WORLD);
    World world = world_from_communicator(job.communicator());
    job.print("# hymn {}, {} ranks, {} bytes; {} alternating blocks of each side\n", version(),
              job.size(), bytes, blocks);
    job.print("{:>22}  {:>17}  {:>17}  {:>13}\n", "", "plain, ns", "prepared, ns", "ratio");
    job.print("{:>22}  {:>8} {:>8}  {:>8} {:>8}  {:>6} {:>6}\n", "", "median", "min", "median",
              "min", "median", "of min");
    compare_collectives(job, world.group());
    if (job.size() == 2)
      for (const int with_tag : {0, tag}) compare_messages(job, world.group(), with_tag);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) { return hymn::run(argc, argv); }
