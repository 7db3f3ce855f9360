// A world of some ranks of a job while another rank, of which hymn knows nothing, wants a core,
// too.
//
//   scripts/mpirun -n 3 build/bin/bench_oversubscribed
//
// Rank 0 is the stranger: it waits in MPI, or computes. The others, which have come to know each
// other where nobody was bound, solve: a halo of 512 bytes and two sums of 8 bytes in each
// iteration, and little between. Solvers and the stranger are bound to the same core, to different
// ones, or to none. Blocks of iterations with MPI and with hymn take turns.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "bench/mpi_job.hpp"
#include "bench/turns.hpp"
#include "hymn/hymn.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr int blocks = 51;
constexpr std::size_t iterations = 100;
constexpr std::size_t halo = 64;
constexpr int stranger = 0;
constexpr int news = 1;  // tag

enum class Stranger { waits, computes };
enum class Places { together, apart, free };

struct Case {
  std::string_view title;
  Stranger stranger;
  Places places;
};
constexpr std::array cases{
    Case{"waits in MPI, solvers on one core", Stranger::waits, Places::together},
    Case{"waits in MPI, solvers on a core each", Stranger::waits, Places::apart},
    Case{"waits in MPI, nobody bound", Stranger::waits, Places::free},
    Case{"computes, solvers on one core", Stranger::computes, Places::together},
    Case{"computes, solvers on a core each", Stranger::computes, Places::apart},
    Case{"computes, nobody bound", Stranger::computes, Places::free}};

/// The CPUs that this process has been given.
class Cpus {
 public:
  Cpus() { sched_getaffinity(0, sizeof(granted_), &granted_); }
  void use_all() const { sched_setaffinity(0, sizeof(granted_), &granted_); }
  /// The `index`th of them, counted round.
  void use_one(int index) const {
    int left = index % CPU_COUNT(&granted_);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &granted_) || left-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof(one), &one);
      return;
    }
  }

 private:
  cpu_set_t granted_{};
};

double compute(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

/// One rank's part of the solver.
class Solver {
 public:
  explicit Solver(const Job& job)
      : job_(&job), world_(world_from_communicator(job.communicator())) {
    up_ = job.rank() > 0 ? job.rank() - 1 : MPI_PROC_NULL;
    down_ = job.rank() + 1 < job.size() ? job.rank() + 1 : MPI_PROC_NULL;
  }

  void iterate_with_mpi() {
    exchange(up_, 0, 1);
    exchange(down_, 1, 0);
    for (int sum = 0; sum < 2; ++sum) {
      double value = compute(inside_);
      MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, job_->communicator());
    }
  }
  void iterate_with_hymn() {
    ProcessGroup& group = world_.group();
    std::vector<P2POp> moves;
    if (up_ != MPI_PROC_NULL) add(moves, up_, 0, 1);
    if (down_ != MPI_PROC_NULL) add(moves, down_, 1, 0);
    group.batch_isend_irecv(moves).wait();
    for (int sum = 0; sum < 2; ++sum) {
      double value = compute(inside_);
      group.all_reduce(view_of(value));
    }
  }

 private:
  void exchange(int peer, int out, int in) {
    MPI_Sendrecv(rows_[0].data(), halo, MPI_DOUBLE, peer, out, rows_[1].data(), halo, MPI_DOUBLE,
                 peer, in, job_->communicator(), MPI_STATUS_IGNORE);
  }
  void add(std::vector<P2POp>& moves, int peer, int out, int in) {
    moves.push_back(P2POp::send(rows_[0], peer, out));
    moves.push_back(P2POp::recv(rows_[1], peer, in));
  }

  const Job* job_;
  World world_;
  int up_;
  int down_;
  std::array<std::vector<double>, 2> rows_{std::vector<double>(halo), std::vector<double>(halo)};
  std::vector<double> inside_ = std::vector<double>(4096, 1e-3);
};

/// What rank 0 does until it is told to go on.
void be_strange(Stranger how) {
  const std::vector<double> values(1 << 16, 1e-3);
  int told = 0;
  double sum = 0;
  while (how == Stranger::computes && told == 0) {
    sum += compute(values);
    MPI_Iprobe(MPI_ANY_SOURCE, news, MPI_COMM_WORLD, &told, MPI_STATUS_IGNORE);
  }
  MPI_Recv(nullptr, 0, MPI_INT, MPI_ANY_SOURCE, news, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (sum < 0) fmt::print("this cannot be\n");
}

void measure(const Job& job, Solver& solver, std::string_view title) {
  std::vector<double> plain(blocks);
  std::vector<double> ours(blocks);
  const auto with_mpi = [&] {
    return time_calls(job, iterations, [&](std::size_t) { solver.iterate_with_mpi(); });
  };
  const auto with_hymn = [&] {
    return time_calls(job, iterations, [&](std::size_t) { solver.iterate_with_hymn(); });
  };
  for (std::size_t block = 0; block < blocks; ++block) {
    if (block % 2 == 1) ours[block] = with_hymn();
    plain[block] = with_mpi();
    if (block % 2 == 0) ours[block] = with_hymn();
  }
  plain = job.slowest(std::move(plain));
  ours = job.slowest(std::move(ours));
  std::vector<double> ratios(blocks);
  std::transform(ours.begin(), ours.end(), plain.begin(), ratios.begin(), std::divides<>());
  const BenchTimes p = figures_of(plain);
  const BenchTimes h = figures_of(ours);
  job.print("{:<38} {:>8.1f} {:>8.1f} {:>8.1f}   {:>8.1f} {:>8.1f} {:>8.1f}   {:>6.2f}\n", title,
            p.median, p.min, p.max, h.median, h.min, h.max, figures_of(ratios).median);
}

void be_solver(MPI_Comm communicator) {
  const Cpus cpus;
  const Job job(communicator);
  Solver solver(job);
  job.print("# hymn {}, {} solvers and one stranger; us an iteration\n{:<38} {:^26}   {:^26}\n",
            version(), job.size(), "the stranger", "MPI", "hymn");
  job.print("{:<38} {:>8} {:>8} {:>8}   {:>8} {:>8} {:>8}   {:>6}\n", "", "median", "min", "max",
            "median", "min", "max", "ratio");
  for (const Case& one : cases) {
    if (one.places == Places::free) cpus.use_all();
    if (one.places == Places::apart) cpus.use_one(job.rank());
    if (one.places == Places::together) cpus.use_one(0);
    job.meet();
    measure(job, solver, one.title);
    if (job.rank() == 0) MPI_Send(nullptr, 0, MPI_INT, stranger, news, MPI_COMM_WORLD);
  }
  cpus.use_all();
}

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Job all(MPI_COMM_WORLD);
  if (all.size() < 3) {
    all.print("bench_oversubscribed takes three ranks at least: a stranger and two that solve\n");
    MPI_Finalize();
    return 2;
  }
  MPI_Comm solvers = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, all.rank() == stranger ? MPI_UNDEFINED : 0, 0, &solvers);
  if (solvers != MPI_COMM_NULL) {
    be_solver(solvers);
    MPI_Comm_free(&solvers);
  } else {
    const Cpus cpus;
    for (const Case& one : cases) {
      if (one.places == Places::free) cpus.use_all();
      if (one.places == Places::apart) cpus.use_one(0);
      if (one.places == Places::together) cpus.use_one(1);
      be_strange(one.stranger);
    }
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) { return hymn::run(argc, argv); }
