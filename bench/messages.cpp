// Messages of few bytes between two ranks, and asynchronous calls, beside plain MPI's, one by one:
// what a call itself costs.
//
//   scripts/mpirun -n 2 --bind-to core build/bin/bench_messages
//
// Blocks of MPI's and of hymn's calls take turns in one run; each block's mean is that of the
// slower rank. What came is compared with what was sent.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <stdexcept>
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
constexpr std::size_t iterations = 2000;
constexpr int in_flight = 64;

/// Two ranks, and a number that goes each way.
class Pair {
 public:
  Pair(const Job& job, const ProcessGroup& group)
      : group_(group), comm_(job.communicator()), other_(1 - job.rank()), is_first_(other_ == 1) {}

  void alter(std::size_t iteration) {
    out_ = static_cast<double>(iteration) + (is_first_ ? 0.25 : 0.5);
    in_ = 0;
  }
  void check() const {
    if (in_ + 0.25 != out_ + (is_first_ ? 0.5 : 0))
      throw std::runtime_error(fmt::format("{} came while {} was sent", in_, out_));
  }
  void check_sum() const {
    if (in_ != 2 * out_ + (is_first_ ? 0.25 : -0.25))
      throw std::runtime_error(fmt::format("{} is the sum of {} and the other's", in_, out_));
  }

  // One after the other: a round takes two messages.
  void ping_pong() {
    if (is_first_) group_.send(out_, other_);
    group_.recv(in_, other_);
    if (!is_first_) group_.send(out_, other_);
  }
  void mpi_ping_pong() {
    if (is_first_) MPI_Send(&out_, 1, MPI_DOUBLE, other_, 0, comm_);
    MPI_Recv(&in_, 1, MPI_DOUBLE, other_, 0, comm_, MPI_STATUS_IGNORE);
    if (!is_first_) MPI_Send(&out_, 1, MPI_DOUBLE, other_, 0, comm_);
  }
  void sendrecv() { group_.sendrecv(out_, other_, 0, in_, other_, 0); }
  void mpi_sendrecv() {
    MPI_Sendrecv(&out_, 1, MPI_DOUBLE, other_, 0, &in_, 1, MPI_DOUBLE, other_, 0, comm_,
                 MPI_STATUS_IGNORE);
  }
  void isend_irecv() {
    Work received = group_.irecv(in_, other_);
    group_.isend(out_, other_).wait();
    received.wait();
  }
  void mpi_isend_irecv() {
    std::array<MPI_Request, 2> requests{};
    MPI_Irecv(&in_, 1, MPI_DOUBLE, other_, 0, comm_, &requests[0]);
    MPI_Isend(&out_, 1, MPI_DOUBLE, other_, 0, comm_, &requests[1]);
    MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
  }
  void all_reduce() { group_.all_reduce(out_, in_); }
  void mpi_all_reduce() { MPI_Allreduce(&out_, &in_, 1, MPI_DOUBLE, MPI_SUM, comm_); }
  void all_reduce_async() { group_.all_reduce_async(out_, in_).wait(); }
  void mpi_iallreduce() {
    MPI_Request request;
    MPI_Iallreduce(&out_, &in_, 1, MPI_DOUBLE, MPI_SUM, comm_, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  void many_in_flight() {
    std::array<Work, in_flight> works;
    for (std::size_t i = 0; i < in_flight; ++i) works[i] = group_.all_reduce_async(out_, into(i));
    for (Work& work : works) work.wait();
  }
  void mpi_many_in_flight() {
    std::array<MPI_Request, in_flight> requests{};
    for (std::size_t i = 0; i < in_flight; ++i)
      MPI_Iallreduce(&out_, &into(i), 1, MPI_DOUBLE, MPI_SUM, comm_, &requests[i]);
    MPI_Waitall(in_flight, requests.data(), MPI_STATUSES_IGNORE);
  }

 private:
  /// The last one is looked at.
  double& into(std::size_t i) { return i + 1 == in_flight ? in_ : ins_[i]; }

  ProcessGroup group_;
  MPI_Comm comm_;
  int other_;
  bool is_first_;
  double out_ = 0;
  double in_ = 0;
  std::array<double, in_flight> ins_{};
};

using Do = void (Pair::*)();

struct Row {
  std::string_view name;
  Do plain;
  Do ours;
  void (Pair::*check)() const;
  double calls;  ///< of one that is timed
};

constexpr std::array rows{
    Row{"send, recv: one way", &Pair::mpi_ping_pong, &Pair::ping_pong, &Pair::check, 2},
    Row{"sendrecv", &Pair::mpi_sendrecv, &Pair::sendrecv, &Pair::check, 1},
    Row{"isend, irecv, wait", &Pair::mpi_isend_irecv, &Pair::isend_irecv, &Pair::check, 1},
    Row{"all_reduce", &Pair::mpi_all_reduce, &Pair::all_reduce, &Pair::check_sum, 1},
    Row{"all_reduce_async, wait", &Pair::mpi_iallreduce, &Pair::all_reduce_async, &Pair::check_sum,
        1},
    Row{"64 in flight: each", &Pair::mpi_many_in_flight, &Pair::many_in_flight, &Pair::check_sum,
        in_flight},
};

double time_of(const Job& job, Pair& pair, const Row& row, Do act) {
  const auto count = static_cast<std::size_t>(static_cast<double>(iterations) / row.calls);
  const double mean = time_calls(job, count, [&](std::size_t i) {
    pair.alter(i);
    (pair.*act)();
    (pair.*row.check)();
  });
  return mean / row.calls;
}

void compare(const Job& job, Pair& pair, const Row& row) {
  std::vector<double> plain(blocks);
  std::vector<double> ours(blocks);
  for (std::size_t block = 0; block < blocks; ++block) {
    const bool we_begin = block % 2 == 1;
    if (we_begin) ours[block] = time_of(job, pair, row, row.ours);
    plain[block] = time_of(job, pair, row, row.plain);
    if (!we_begin) ours[block] = time_of(job, pair, row, row.ours);
  }
  const BenchTimes p = figures_of(job.slowest(std::move(plain)));
  const BenchTimes h = figures_of(job.slowest(std::move(ours)));
  job.print("{:24}  {:>7.3f} {:>7.3f} {:>8.3f}  {:>7.3f} {:>7.3f} {:>8.3f}  {:>6.2f}\n", row.name,
            p.median, p.min, p.max, h.median, h.min, h.max, h.median / p.median);
}

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Job job(MPI_COMM_WORLD);
    if (job.size() != 2) {
      job.print("bench_messages is for two ranks\n");
    } else {
      World world = world_from_communicator(job.communicator());
      Pair pair(job, world.group());
      job.print("# hymn {}; 8 bytes, {} alternating blocks of {} calls; us\n", version(), blocks,
                iterations);
      job.print("{:24}  {:^24}  {:^24}  {:>6}\n", "", "plain MPI", "hymn", "ratio");
      job.print("{:24}  {:>7} {:>7} {:>8}  {:>7} {:>7} {:>8}\n", "", "median", "min", "max",
                "median", "min", "max");
      for (const Row& row : rows) compare(job, pair, row);
    }
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) { return hymn::run(argc, argv); }
